package casts

import (
	"context"
	"errors"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/subjects"
)

// rankName is the name of the actor of every rank.
const rankName = "rank"

var (
	rankType = actor.NewType[*rank, int]("rank")
	measure  = actor.NewEndpoint[*rank, []byte, int64]("measure")
	sign     = actor.NewEndpoint[*rank, []byte, []byte]("sign")
	hear     = actor.NewEndpoint[*rank, []byte, actor.None]("hear")
)

// rank is an actor that is cast to.
type rank struct{ rank int }

func (*rank) measure(_ *actor.Context, m []byte) (int64, error) { return int64(len(m)), nil }

func (r *rank) sign(_ *actor.Context, m []byte) ([]byte, error) {
	out := make([]byte, len(m))
	stamp(out, m, r.rank)
	return out, nil
}

func (*rank) hear(*actor.Context, []byte) (none actor.None, _ error) { return none, nil }

// seat is procs that share a process, and what they stand on.
type seat struct {
	bus      *bus.Bus
	registry actor.Registry
	procs    []*actor.Proc
	routers  []*cast.Router
}

func (s *seat) open(ctx context.Context, srv *server.Server) (err error) {
	s.registry, err = actor.NewRegistry(rankType.Define(
		func(_ *actor.Context, n int) (*rank, error) { return &rank{n}, nil },
		measure.Handle((*rank).measure), sign.Handle((*rank).sign), hear.Handle((*rank).hear)))
	if err != nil {
		return err
	}
	s.bus, err = bus.Open(ctx, srv.Bus())
	return err
}

// start starts a proc with its router.
func (s *seat) start(ctx context.Context, id subjects.ProcID, m *cast.Member) (*actor.Proc, error) {
	o := actor.Options{ID: id, Bus: s.bus, Registry: s.registry, Log: server.Log()}
	if id.Index > 0 {
		o.Lead = s.procs[0]
		o.Bus = nil
	}
	p, err := actor.NewProc(ctx, o)
	if err != nil {
		return nil, err
	}
	s.procs = append(s.procs, p)
	r, err := cast.Start(p, m)
	if err == nil && id.Index == 0 {
		s.routers = append(s.routers, r)
	}
	return p, err
}

// Close closes the procs, the first of them last, then what they stood on.
func (s *seat) Close(ctx context.Context) error {
	var errs []error
	for _, p := range slices.Backward(s.procs) {
		errs = append(errs, p.Close(ctx))
	}
	for _, r := range s.routers {
		r.Close()
	}
	if s.bus != nil {
		errs = append(errs, s.bus.Close(ctx))
	}
	return errors.Join(errs...)
}

// Members are castnet's ranks in one process.
type Members struct{ seat }

// StartMembers starts a proc for each rank of the share, with an actor in it.
func StartMembers(ctx context.Context, srv *server.Server, s Share) (*Members, error) {
	m := &Members{}
	if err := m.start(ctx, srv, s); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

func (m *Members) start(ctx context.Context, srv *server.Server, s Share) error {
	if err := m.open(ctx, srv); err != nil {
		return err
	}
	place := s.placement()
	for n := s.First; n < s.First+s.Each; n++ {
		p, err := m.seat.start(ctx, place.Proc(n), &cast.Member{Placement: place, Rank: n})
		if err != nil {
			return err
		}
		point, err := place.Extent.Point(n)
		if err != nil {
			return err
		}
		if _, err := p.Spawn(ctx, actor.SpawnSpec{Type: "rank", Name: rankName, Params: n,
			Point: point}); err != nil {
			return err
		}
	}
	return m.bus.Data().Flush(ctx)
}
