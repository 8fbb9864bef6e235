package cast

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
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
	if !wire.IsFrame(m.Data) {
		r.p.Foreign(s.Actor, s.Port, actor.ForeignMessage{
			Msg: m, From: s.From, Point: r.point, Rank: strconv.Itoa(r.member.Rank),
		})
		return
	}
	f, from, err := r.p.Open(m, s)
	if err == nil && f.Kind != wire.Cast {
		err = fmt.Errorf("frame of kind %d on a cast's subject", f.Kind)
	}
	if err != nil {
		r.drop(m, err)
		return
	}
	var h header
	view, prev, member, err := h.open(f.Ext, r.member.Rank)
	if err != nil {
		r.drop(m, err)
		return
	}
	if member && r.p.Accept(from, f.N, prev) { // CAST-1, CAST-2
		r.deliver(s.Actor, s.Port, from.Proc().Actor(f.Sender), f, h, view)
	}
}

func (r *Router) drop(m bus.Msg, err error) {
	log := r.p.Log()
	log.Warn().Err(err).Str("subject", m.Subject).Msg("malformed cast dropped")
}

// deliver hands a cast to this proc's actor, with its point in the region (CAST-3).
func (r *Router) deliver(name, endpoint string, from subjects.ActorID, f wire.Frame, h header, view int) {
	point, err := h.Region.Extent().Point(view)
	if err != nil {
		point = r.point
	}
	d := actor.Delivery{Actor: name, Port: endpoint, From: from, Point: point, Raw: f.Body}
	if f.TTL > 0 {
		d.Deadline = time.Now().Add(f.TTL)
	}
	if h.Mode != modePost {
		home, err := subjects.ParsePortID(h.Home)
		if err != nil {
			log := r.p.Log()
			log.Warn().Err(err).Stringer("from", from).Msg("a cast without a home for its answers")
			return
		}
		d.Answer = r.answer(name, endpoint, home, h, view, f.TTL)
	}
	r.p.Deliver(d)
}

// answer says where the answer of this rank goes: home, or to the rank that folds for its host.
func (r *Router) answer(name, endpoint string, home subjects.PortID, h header, view int, ttl time.Duration) func(actor.Answer) {
	if h.Mode == modeEach {
		return func(a actor.Answer) {
			r.p.AnswerWith(name, home, a, encode(rest{Rank: view}))
		}
	}
	folder, ranks := r.folder(h)
	if folder != r.p.ID() {
		to := folder.Actor(routerActor).Port(foldPort)
		return func(a actor.Answer) {
			r.p.AnswerWith(name, to, a, encode(rest{Home: h.Home, Rank: view}))
		}
	}
	r.folds.expect(job{
		home: home, actor: name, endpoint: endpoint, reducer: h.Reducer, ranks: ranks,
		region: h.Region, ttl: ttl,
	})
	return func(a actor.Answer) { r.folds.contribute(h.Home, view, a) }
}

// folder finds who folds for this host, and whose answers: its lowest rank that is meant.
func (r *Router) folder(h header) (subjects.ProcID, []int) {
	var meant []int
	for _, view := range hostRanks(r.member.Placement, h.Region, r.member.Placement.host(r.member.Rank)) {
		if !contains(h.Skip, view) {
			meant = append(meant, view)
		}
	}
	if len(meant) == 0 { // cannot be: this rank is meant
		return r.p.ID(), nil
	}
	base, err := h.Region.BaseRank(meant[0])
	if err != nil {
		return r.p.ID(), meant
	}
	return r.member.Placement.Proc(base), meant
}

// encode writes the ext of an answer; it has nothing in it that cannot be encoded.
func encode(r rest) []byte {
	b, err := wire.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("cast: encode the ext of an answer: %v", err))
	}
	return b
}
