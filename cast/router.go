package cast

import (
	"errors"
	"fmt"
	"iter"
	"slices"
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

// Router takes casts off the bus for the procs of one process, hands them to their actors, and folds the
// answers of its host.
type Router struct {
	p     *actor.Proc // the first of the process
	place Placement
	folds *folds
	once  sync.Once

	cancel func()

	mu      sync.RWMutex    // guards the fields below
	members []seated        // by rank, from that of p on
	heard   map[string]bool // tokens that are subscribed

	routes routes
}

// seated is a proc of this process that is a rank of the mesh.
type seated struct {
	p     *actor.Proc
	point shape.Point
}

// Start gives a proc a router: its own, or, when it is not the first of its process, that one's, which must
// have been started. A proc that is no rank of a mesh (a client, a host's own) passes nil: it can cast, and
// nobody casts to it.
func Start(p *actor.Proc, m *Member) (*Router, error) {
	r := &Router{p: p, cancel: func() {}, heard: map[string]bool{}}
	if p.First() != p {
		first, ok := p.First().Value(routerKey{}).(*Router)
		if !ok {
			return nil, fmt.Errorf("start router of %s: the first proc of its process has none", p.ID())
		}
		r = first
	}
	p.SetValue(routerKey{}, r)
	if r.p == p {
		p.OpenRaw(routerActor, laterPort, r.later)
	}
	if m == nil {
		return r, nil
	}
	if err := r.join(p, m); err != nil {
		if r.p == p {
			r.Close()
		}
		return nil, fmt.Errorf("start router of %s: %w", p.ID(), err)
	}
	return r, nil
}

// join makes a proc of the process a member of the mesh.
func (r *Router) join(p *actor.Proc, m *Member) error {
	point, err := m.Placement.Extent.Point(m.Rank)
	if err != nil {
		return err
	}
	if r.folds == nil {
		if p != r.p {
			return errors.New("the first proc of its process is no rank of the mesh")
		}
		r.place, r.folds = m.Placement, newFolds(p, m.Placement)
		p.OnCast(r.take)
		p.OpenRaw(routerActor, foldPort, r.folds.receive)
		if err := p.Follow(m.Placement.Mesh, m.Placement.Extent.NumRanks()); err != nil {
			return err
		}
		r.cancel = p.OnUnreachable(r.folds.unreachable)
	}
	r.runs(p.ID()) // it casts, too
	r.mu.Lock()
	if r.members == nil {
		r.members = make([]seated, max(m.Placement.PerProcess, 1))
	}
	i := m.Rank - int(r.p.ID().Rank)
	if i < 0 || i >= len(r.members) {
		r.mu.Unlock()
		return fmt.Errorf("rank %d is not among the %d of the process %s", m.Rank, len(r.members), r.p.ID().Process())
	}
	r.members[i] = seated{p, point}
	var news []string
	for _, where := range whereTokens(m.Placement.Extent, point) {
		if !r.heard[where] {
			r.heard[where], news = true, append(news, where)
		}
	}
	r.mu.Unlock()
	for _, where := range news {
		if err := r.p.Subscribe(r.p.Space().CastsOf(m.Placement.Mesh, where), r.receive); err != nil {
			return err
		}
	}
	return nil
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
		r.p.RefuseForeign(m, err)
		return
	}
	if !wire.IsPacket(m.Data) {
		r.plain(m, s)
		return
	}
	r.p.ReceiveCast(m, s, func(from subjects.ActorID, n uint64, e *wire.Envelope) (k actor.ReceivedCast, err error) {
		var h header
		k.Prev = link.Left
		if err := r.open(&h, e.Ext); err != nil {
			return k, err
		}
		first, end := r.ranks(&h)
		switch {
		case first < 0:
			return k, nil
		case r.stale(&h, first):
			return k, r.refuse(from, e, &h, first, end)
		case genAt(h.Gens, first) != r.p.ID().Gen:
			return k, nil
		}
		k.Prev, err = h.prev(first)
		k.Answers = h.Mode.folds()
		k.Deliver = func() error { return r.deliver(from, n, e, h, nil) } // CAST-1, CAST-2
		return k, err
	})
}

// matching yields the members that a token speaks of, in rank order.
func (r *Router) matching(where string) iter.Seq2[int, seated] {
	return func(yield func(int, seated) bool) {
		r.mu.RLock()
		all := slices.Clone(r.members)
		r.mu.RUnlock()
		for i, to := range all {
			if to.p != nil && slices.Contains(whereTokens(r.place.Extent, to.point), where) && !yield(int(r.p.ID().Rank)+i, to) {
				return
			}
		}
	}
}

// ranks are those of a cast that are in this process, from the first up to an end, whether or not they are
// meant; -1 when there are none.
func (r *Router) ranks(h *header) (first, end int) {
	base := int(r.p.ID().Rank)
	for rank := base; rank < base+max(r.place.PerProcess, 1); rank++ {
		if view, in := h.Region.ViewRank(rank); in {
			t := h.tree(r.place)
			return view, t.processEnd(view)
		}
	}
	return -1, -1
}

// open decodes the header of a cast to this mesh.
func (r *Router) open(h *header, ext []byte) error {
	if err := h.open(ext); err != nil {
		return err
	}
	last, err := h.Region.BaseRank(h.Region.NumRanks() - 1) // the highest
	if err == nil && last >= r.place.Extent.NumRanks() {
		err = fmt.Errorf("cast header: region %s is not in the mesh's extent %s", h.Region, r.place.Extent)
	}
	return err
}

// take takes a cast that came to this process alone, in its place among the other messages of its sender.
func (r *Router) take(from subjects.ActorID, e *wire.Envelope) error {
	var h header
	err := r.open(&h, e.Ext)
	if err == nil {
		switch first, _ := r.ranks(&h); {
		case first < 0:
			err = fmt.Errorf("rank %d is not in the region of the cast", r.p.ID().Rank)
		case genAt(h.Gens, first) != r.p.ID().Gen:
			err = fmt.Errorf("the cast asks for generation %d of rank %d", genAt(h.Gens, first), r.p.ID().Rank)
		}
	}
	if err != nil {
		return &actor.Error{Code: actor.CodeBadMessage, Actor: e.Actor, Endpoint: e.Port, Text: err.Error()}
	}
	own := *e
	return r.deliver(from, 0, &own, h, nil)
}

// deliver hands a cast to the actors of this process, each with its point in the region (CAST-3). n is its
// number, 0 when it came to this process alone. Of what nobody answers refused is told whom it does not reach;
// when that is nil the sender is, rank by rank. An error is of all of them.
func (r *Router) deliver(from subjects.ActorID, n uint64, e *wire.Envelope, h header, refused func(view int, why error)) error {
	first, end := r.ranks(&h)
	if first = h.Skip.after(first); first >= end {
		return nil
	}
	f := &actor.Fan{Actor: e.Actor, Port: e.Port, From: from, Raw: e.Body, Reply: h.Home, Point: h.point}
	if e.TTL > 0 {
		f.Deadline = time.Now().Add(e.TTL)
	}
	answer, unknown, err := r.answers(sent{from, n}, e, &h, first)
	if err != nil {
		return err
	}
	if f.Answer = answer; answer == nil {
		f.Refused = refused
	}
	to, absent := r.reached(&h, first, end)
	if unknown != nil { // no handler runs (CAST-7)
		for _, at := range to {
			answer(at.View, actor.Answer{Err: unknown})
		}
		to = nil
	}
	if answer == nil && refused == nil && len(to)+len(absent) == 1 { // what came with it is refused, too
		for _, view := range absent {
			return r.absent(&h, view)
		}
		return to[0].Proc.Accept(f, to[0].View)
	}
	for _, view := range absent {
		switch err := r.absent(&h, view); {
		case answer != nil:
			answer(view, actor.Answer{Err: err})
		case refused != nil:
			refused(view, err)
		default:
			r.p.GiveBack(f, view, err)
		}
	}
	r.p.Spread(f, to)
	return nil
}

// reached are the ranks of a cast that run here, and those that do not.
func (r *Router) reached(h *header, first, end int) (to []actor.Reached, absent []int) {
	to = make([]actor.Reached, 0, end-first)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for view := first; view < end; view = h.Skip.after(view + 1) {
		if m, here := r.at(h, view); here {
			to = append(to, actor.Reached{Proc: m.p, View: view})
		} else {
			absent = append(absent, view)
		}
	}
	return to, absent
}

// at is the member of a rank. The lock is held.
func (r *Router) at(h *header, view int) (to seated, here bool) {
	base, err := h.Region.BaseRank(view)
	i := base - int(r.p.ID().Rank)
	if err != nil || i < 0 || i >= len(r.members) || r.members[i].p == nil {
		return seated{}, false
	}
	return r.members[i], true
}

// proc is who speaks for a rank.
func (r *Router) proc(h *header, view int) *actor.Proc {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if to, here := r.at(h, view); here {
		return to.p
	}
	return r.p
}

// absent says that a rank of this process does not run.
func (r *Router) absent(h *header, view int) error {
	base, _ := h.Region.BaseRank(view)
	id := r.place.Proc(base)
	id.Gen = r.p.ID().Gen
	return &actor.Error{Code: actor.CodeNoProc, Actor: id.String(), Text: "process " + id.Process().String() + " has no proc " + id.String()}
}

// answers says where the answers of this process's ranks go: home, or into what it folds; nil: there are
// none. refused is the answer of each when the reducer is none.
func (r *Router) answers(s sent, e *wire.Envelope, h *header, first int) (answer func(view int, a actor.Answer), refused, err error) {
	if h.Mode == modePost {
		return nil, nil, nil
	}
	home, err := subjects.ParsePortID(h.Home)
	if err != nil {
		return nil, nil, &actor.Error{Code: actor.CodeBadMessage, Actor: e.Actor, Endpoint: e.Port, Text: "a cast without a home for its answers: " + err.Error()}
	}
	name := e.Actor
	if h.Mode == modeEach {
		return func(view int, a actor.Answer) { r.proc(h, view).AnswerWith(name, home, a, encode(rest{Rank: view})) }, nil, nil
	}
	j := jobOf(h.tree(r.place), h.Mode, first)
	if r.stale(h, first) { // nobody sends here what it would have to fold for others
		j.hi = j.below
	}
	j.sent, j.home, j.cast, j.actor, j.endpoint, j.reducer, j.ttl = s, home, h.Home, name, e.Port, h.Reducer, e.TTL
	if h.Tell > 0 {
		j.tell, j.partly = max(time.Duration(h.Tell)*time.Millisecond, leastTell), h.Partly
	}
	f := r.folds.expect(j)
	return func(view int, a actor.Answer) { r.folds.contribute(f, view, a) }, r.folds.refuses(j), nil
}

// encode writes the ext of an answer; it has nothing in it that cannot be encoded.
func encode(r rest) []byte {
	b, err := wire.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("cast: encode the ext of an answer: %v", err))
	}
	return b
}
