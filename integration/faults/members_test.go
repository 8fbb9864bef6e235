package faults

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/integration/faults/history"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// membersName is the shared name of the members of a mesh.
const membersName = "members"

var (
	memberType = actor.NewType[*member, int]("member")
	mark       = actor.NewEndpoint[*member, parcel, uint64]("mark")
	marks      = actor.NewEndpoint[*member, parcel, []uint64]("marks", inARow)

	inARow = actor.NewReducer("row", func(a, b []uint64) ([]uint64, error) { return append(a, b...), nil })
)

// markOf is the answer of a rank to a message. A sum of marks shows the answering ranks, once each,
// and the message.
func markOf(n uint64, rank int) uint64 { return n<<maxMarks | 1<<rank }

// maxMarks bounds the ranks of a mesh.
const maxMarks = 40

// member is a rank of a mesh for casts. It records its handled messages.
type member struct {
	rank    int
	history *history.Log
}

func (w *workerRole) memberDef() actor.Def {
	return memberType.Define(func(_ *actor.Context, rank int) (*member,
		error) {
		return &member{rank, w.history}, nil
	},
		mark.Handle((*member).mark), marks.Handle((*member).marks))
}

func (m *member) mark(ctx *actor.Context, p parcel) (uint64, error) {
	self := ctx.Self().String()
	s := history.Stream{From: ctx.Sender().String(), To: self}
	err := m.history.Add(history.Record{Kind: history.Handled, Stream: s, N: p.N, Note: self})
	if crc32.ChecksumIEEE(p.Pad) != p.Sum {
		err = errors.Join(err, m.history.Add(history.Record{Kind: history.Corrupt, Stream: s, N: p.N}))
	}
	return markOf(p.N, m.rank), err
}

func (m *member) marks(ctx *actor.Context, p parcel) ([]uint64, error) {
	n, err := m.mark(ctx, p)
	return []uint64{n}, err
}

// enter makes the ranks of this process members of a mesh; w.proc is the first of them.
func (w *workerRole) enter(ctx context.Context, place cast.Placement, registry actor.Registry,
	log zerolog.Logger) error {
	first := int(w.proc.ID().Rank)
	for rank := first; rank < first+place.PerProcess; rank++ {
		p := w.proc
		if rank > first {
			var err error
			if p, err = actor.NewProc(ctx, actor.Options{ID: place.Proc(rank), Registry: registry, Log: log,
				Lead: w.proc}); err != nil {
				return err
			}
		}
		if err := w.route(p, &cast.Member{Placement: place, Rank: rank}); err != nil {
			return err
		}
		at, err := place.Extent.Point(rank)
		if err != nil {
			return err
		}
		if _, err := p.Spawn(ctx, actor.SpawnSpec{Type: memberType.Name(), Name: membersName, Params: rank,
			Point: at}); err != nil {
			return err
		}
	}
	return nil
}

// route gives a proc a router. The router ends after the proc.
func (w *workerRole) route(p *actor.Proc, m *cast.Member) error {
	r, err := cast.Start(p, m)
	if err != nil {
		return err
	}
	w.routers = append(w.routers, r)
	return nil
}

// crew is a part of a mesh of members.
type crew struct {
	place  cast.Placement
	region shape.Region
}

func (c crew) Target() (cast.Target, error) {
	return cast.Target{Placement: c.place, Actor: membersName, Region: c.region}, nil
}

func (c crew) Ref(rank int) actor.Ref[*member] {
	base, err := c.region.BaseRank(rank)
	if err != nil {
		return actor.ErrRef[*member](err)
	}
	return actor.RefOf[*member](c.place.Proc(base).Actor(membersName))
}

// bases are the ranks of the crew, in the mesh.
func (c crew) bases() (all []int) {
	for _, base := range c.region.Ranks() {
		all = append(all, base)
	}
	return all
}

// The verbs of a caster, in turn.
const (
	summed   = iota // Reduce to a sum
	gathered        // Gather
	inOrder         // Reduce to a row
	posted          // Post
	direct          // a message to one rank, which the order is to hold for as well
	ways
)

// crew is the next target of the caster, and its verb.
func (s *sender) crew(i int) (crew, int, error) {
	c, way := s.load.Casts, i%ways
	region, err := shape.Select(c.Place.Extent, c.Parts[i/ways%len(c.Parts)])
	if err == nil && way == direct {
		var base int
		if base, err = region.BaseRank(s.rand.IntN(region.NumRanks())); err == nil {
			region, err = alone(c.Place.Extent, base)
		}
	}
	return crew{c.Place, region}, way, err
}

// alone is a region of one rank.
func alone(e shape.Extent, base int) (shape.Region, error) {
	at, err := e.Point(base)
	if err != nil {
		return shape.Region{}, err
	}
	r := e.Region()
	for i, d := range e.Dims() {
		if r, err = r.Slice(d.Label, at.Coords()[i], at.Coords()[i]+1); err != nil {
			return r, err
		}
	}
	return r, nil
}

// ask casts to a crew and returns the received marks.
func (c crew) ask(ctx context.Context, way int, p parcel) (got []uint64, err error) {
	switch way {
	case summed:
		sum, err := cast.Reduce(ctx, c, mark, p, cast.Sum[uint64]())
		return []uint64{sum}, err
	case gathered:
		all, err := cast.Gather(ctx, c, mark, p)
		return slices.DeleteFunc(all.Values(), func(m uint64) bool { return m == 0 }), err
	case inOrder:
		return cast.Reduce(ctx, c, marks, p, inARow)
	case posted:
		return nil, cast.Send(ctx, c, marks, p)
	}
	return nil, mark.Send(ctx, c.Ref(0), p)
}

// castOutcome is the result of one cast, in ranks of the mesh.
type castOutcome struct {
	Way                           int
	Began, Ended                  time.Time
	Asked, Known, Failed, Missing []int // Known: those that were known to be dead when it began
}

// answered are the ranks with a reported answer.
func (o castOutcome) answered() []int {
	return slices.DeleteFunc(slices.Clone(o.Asked),
		func(r int) bool { return slices.Contains(o.Failed, r) || slices.Contains(o.Missing, r) })
}

// cast sends one cast to the mesh and records the known fate of the message at once. An error is
// one of the test or of the result: a coverage with a wrong sum, or a fold of other ranks than the
// answered ones.
func (s *sender) cast(ctx context.Context, i int) error {
	c, way, err := s.crew(i)
	if err != nil {
		return err
	}
	p := parcel{N: uint64(s.count.Load()) + 1, Pad: s.payload()}
	p.Sum = crc32.ChecksumIEEE(p.Pad)
	o := castOutcome{Way: way, Asked: c.bases()}
	for _, base := range o.Asked {
		if err := s.recordFate(c, base, p.N, history.Sent, ""); err != nil {
			return err
		}
		if _, dead := s.proc.Members().Down(c.place.Proc(base)); dead {
			o.Known = append(o.Known, base)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.load.Deadline)
	defer cancel()
	o.Began = time.Now()
	got, err := c.ask(ctx, way, p)
	o.Ended = time.Now()
	if err := s.recordErrors(&o, c, p.N, err); err != nil {
		return fmt.Errorf("cast %d: %w", p.N, err)
	}
	s.outcomes = append(s.outcomes, o)
	return o.check(p.N, got)
}

// recordFate records a known fate of a message to one rank.
func (s *sender) recordFate(c crew, base int, n uint64, what history.Kind, why string) error {
	to := c.place.Proc(base).Actor(membersName).String()
	return s.history.Add(history.Record{Kind: what, Stream: history.Stream{From: s.self, To: to},
		N: n, Note: why})
}

// recordErrors records the fate of each rank from an error, or from none.
func (s *sender) recordErrors(o *castOutcome, c crew, n uint64, err error) error {
	partial, isPartial := errors.AsType[*cast.CoverageError](err)
	single, isSingle := errors.AsType[*actor.Error](err)
	var bad []cast.Failure
	switch {
	case err == nil:
	case isPartial:
		k := partial.Coverage
		if k.Asked != len(o.Asked) || k.Asked != k.Answered+len(k.Failed)+len(k.Missing) || len(k.NotAsked) > 0 {
			return fmt.Errorf("%d ranks, and the coverage of %w", len(o.Asked), err)
		}
		bad = slices.Concat(k.Failed, k.Missing)
		o.Failed, o.Missing = basesOf(c, k.Failed), basesOf(c, k.Missing)
	case isSingle && o.Way == direct:
		bad = []cast.Failure{{Err: single}}
		o.Failed = slices.Clone(o.Asked)
	default:
		return err
	}
	for _, f := range bad {
		e, ok := errors.AsType[*actor.Error](f.Err)
		if !ok {
			return fmt.Errorf("want an *actor.Error: %w", f.Err)
		}
		if err := s.recordFate(c, o.Asked[f.Rank], n, fate(e), e.Error()); err != nil {
			return err
		}
	}
	if o.Way >= posted {
		return nil // nobody says that it was handled
	}
	for _, base := range o.answered() {
		if err := s.recordFate(c, base, n, history.Answered, ""); err != nil {
			return err
		}
	}
	return nil
}

func basesOf(c crew, failures []cast.Failure) (all []int) {
	for _, f := range failures {
		if base, err := c.region.BaseRank(f.Rank); err == nil {
			all = append(all, base)
		}
	}
	return all
}

// check compares the received marks with the answered ranks.
func (o castOutcome) check(n uint64, got []uint64) error {
	var want []uint64
	sum := uint64(0)
	answered := o.answered()
	for _, base := range answered {
		want, sum = append(want, markOf(n, base)), sum+markOf(n, base)
	}
	switch {
	case len(answered)+len(o.Failed)+len(o.Missing) != len(o.Asked):
		return fmt.Errorf("cast %d: a rank is named twice: %v", n, o)
	case slices.ContainsFunc(o.Known, func(r int) bool { return !slices.Contains(o.Failed, r) }):
		return fmt.Errorf("cast %d: ranks %v were known to be dead and did not fail: %v", n, o.Known, o)
	case o.Way == summed:
		want = []uint64{sum}
	case o.Way >= posted:
		want = nil
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("cast %d: got marks %x, want %x of the answered ranks: %v", n, got, want, o)
	}
	return nil
}

// returned records dead letters, rank by rank.
func (s *sender) returned(r actor.DeadLetter) error {
	id, err := subjects.ParseActorID(r.Reason.Actor)
	if err != nil {
		return err
	}
	return s.recordFate(crew{place: s.load.Casts.Place}, int(id.Proc.Rank), 0, fate(r.Reason), r.Reason.Error())
}
