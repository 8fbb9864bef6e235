package cast

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// routerActor and foldPort address the router of a proc.
const (
	routerActor = "cast"
	foldPort    = "fold"
)

type routerKey struct{}

// Member says which rank of which mesh a proc is.
type Member struct {
	Placement Placement
	Rank      int
}

// Router takes casts off the bus for one proc, hands them to its actors, and folds the answers of
// its host.
type Router struct {
	p      *actor.Proc
	member Member
	point  shape.Point
	folds  *folds
	cancel func()
	once   sync.Once
}

// Start gives a proc a router. A proc that is no rank of a mesh (a client, a host's own) passes
// nil: it can cast, and nobody casts to it.
func Start(p *actor.Proc, m *Member) (*Router, error) {
	r := &Router{p: p, cancel: func() {}}
	p.SetValue(routerKey{}, r)
	if m == nil {
		return r, nil
	}
	point, err := m.Placement.Extent.Point(m.Rank)
	if err != nil {
		return nil, fmt.Errorf("start router of %s: %w", p.ID(), err)
	}
	r.member, r.point = *m, point
	p.OnCast(r.take)
	r.folds = newFolds(p, m.Placement)
	p.OpenRaw(routerActor, foldPort, r.folds.receive)
	if err := p.Follow(m.Placement.Mesh); err != nil {
		return nil, err
	}
	r.cancel = p.OnUnreachable(r.folds.unreachable)
	for _, where := range whereTokens(m.Placement.Extent, point) {
		if err := p.Subscribe(p.Space().CastsOf(m.Placement.Mesh, where), r.receive); err != nil {
			r.Close()
			return nil, fmt.Errorf("start router of %s: %w", p.ID(), err)
		}
	}
	return r, nil
}

// Close gives up what is being folded and waits for it. The subscriptions end with the proc.
func (r *Router) Close() {
	r.once.Do(func() {
		r.cancel()
		if r.folds != nil {
			r.folds.close()
		}
	})
}

// receive takes a cast off the bus, on the data pump.
func (r *Router) receive(m bus.Msg) {
	s, err := r.p.Space().Parse(m.Subject)
	if err != nil {
		return // our own subscription brought it: the subject is ours
	}
	if !wire.IsPacket(m.Data) {
		r.p.Foreign(s.Actor, s.Port, actor.ForeignMessage{
			Msg: m, From: s.From, Point: r.point, Rank: strconv.Itoa(r.member.Rank),
		})
		return
	}
	r.p.ReceiveCast(m, s, func(from subjects.ActorID, e *wire.Envelope) (uint64, func() error, error) {
		var h header
		if err := h.open(e.Ext); err != nil {
			return link.Left, nil, err
		}
		view, meant := h.member(r.member.Rank)
		if !meant {
			return link.Left, nil, nil
		}
		prev, err := h.prev(view)
		return prev, func() error { return r.deliver(from, e, h) }, err // CAST-1, CAST-2
	})
}

// take takes a cast that came to this process alone, in its place among the other messages of its sender.
func (r *Router) take(from subjects.ActorID, e *wire.Envelope) error {
	var h header
	err := h.open(e.Ext)
	if _, meant := h.member(r.member.Rank); err == nil && !meant {
		err = fmt.Errorf("rank %d is not in the region of the cast", r.member.Rank)
	}
	if err != nil {
		return &actor.Error{Code: actor.CodeBadMessage, Actor: e.Actor, Endpoint: e.Port, Text: err.Error()}
	}
	own := *e
	return r.deliver(from, &own, h)
}

// deliver hands a cast to this proc's actor, with its point in the region (CAST-3). An error is for who
// waits for no answer.
func (r *Router) deliver(from subjects.ActorID, e *wire.Envelope, h header) error {
	view, _ := h.member(r.member.Rank)
	point, err := h.Region.Extent().Point(view)
	if err != nil {
		point = r.point
	}
	d := actor.Delivery{Actor: e.Actor, Port: e.Port, From: from, Point: point, Raw: e.Body}
	if e.TTL > 0 {
		d.Deadline = time.Now().Add(e.TTL)
	}
	if h.Mode == modePost {
		return r.p.Accept(d)
	}
	home, err := subjects.ParsePortID(h.Home)
	if err != nil {
		return &actor.Error{Code: actor.CodeBadMessage, Actor: e.Actor, Endpoint: e.Port, Text: "a cast without a home for its answers: " + err.Error()}
	}
	d.Answer = r.answer(e, h, home, view)
	r.p.Deliver(d)
	return nil
}

// answer says where the answer of this rank goes: home, or into what its process folds.
func (r *Router) answer(e *wire.Envelope, h header, home subjects.PortID, view int) func(actor.Answer) {
	if h.Mode == modeEach {
		name := e.Actor
		return func(a actor.Answer) { r.p.AnswerWith(name, home, a, encode(rest{Rank: view})) }
	}
	j := jobOf(h.tree(r.member.Placement), h.Mode, view)
	j.home, j.cast, j.actor, j.endpoint, j.reducer, j.ttl = home, h.Home, e.Actor, e.Port, h.Reducer, e.TTL
	f := r.folds.expect(j)
	return func(a actor.Answer) { r.folds.contribute(f, view, a) }
}

// encode writes the ext of an answer; it has nothing in it that cannot be encoded.
func encode(r rest) []byte {
	b, err := wire.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("cast: encode the ext of an answer: %v", err))
	}
	return b
}
