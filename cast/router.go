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
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// routerActor and foldPort address the router of a proc.
const (
	routerActor = "cast"
	foldPort    = "fold"
)

type routerKey struct{}

// Member is a proc's mesh and rank.
type Member struct {
	Placement Placement
	Rank      int
}

// Router takes casts off the bus for the procs of one process, hands them to their actors, and
// folds the answers of its host.
type Router struct {
	p            *actor.Proc // the first of the process
	placement    Placement
	aggregations *aggregations
	once         sync.Once

	cancel func()

	mu         sync.RWMutex    // guards the fields below
	members    []localMember   // by rank, from that of p on
	subscribed map[string]bool // tokens that are subscribed

	routes routes
	counts castCounts
}

// localMember is a proc of this process with a rank of the mesh.
type localMember struct {
	p     *actor.Proc
	point shape.Point
}

// Start gives a proc a router. Colocated procs share the router of the first one, which must have
// started. A proc without a mesh (a client, a host's own) passes nil: it can cast, and receives no
// casts.
func Start(p *actor.Proc, m *Member) (*Router, error) {
	r := &Router{p: p, cancel: func() {}, subscribed: map[string]bool{}}
	if p.Lead() != p {
		first, ok := p.Lead().Values().Get(routerKey{}).(*Router)
		if !ok {
			return nil, fmt.Errorf("start router of %s: the first proc of its process has none", p.ID())
		}
		r = first
	}
	p.Values().Set(routerKey{}, r)
	if r.p == p {
		actor.OpenRaw(p, routerActor, successorPort, r.handleSuccessor)
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
	if r.aggregations == nil {
		if p != r.p {
			return errors.New("the first proc of its process is not a rank of the mesh")
		}
		r.placement = m.Placement
		r.aggregations = newAggregations(p, m.Placement)
		p.Casts().OnCast(r.receiveDirect)
		actor.OpenRaw(p, routerActor, foldPort, r.aggregations.receive)
		if err := p.Members().FollowMesh(m.Placement.Mesh, m.Placement.Extent.NumRanks()); err != nil {
			return err
		}
		r.cancel = p.Members().OnUnreachable(r.aggregations.onUnreachable)
	}
	r.noteRunning(p.ID()) // it casts, too
	r.mu.Lock()
	if r.members == nil {
		r.members = make([]localMember, max(m.Placement.PerProcess, 1))
	}
	i := m.Rank - int(r.p.ID().Rank)
	if i < 0 || i >= len(r.members) {
		r.mu.Unlock()
		return fmt.Errorf("rank %d is not among the %d of the process %s", m.Rank, len(r.members),
			r.p.ID().Process())
	}
	r.members[i] = localMember{p, point}
	var news []string
	for _, where := range whereTokens(m.Placement.Extent, point) {
		if !r.subscribed[where] {
			r.subscribed[where] = true
			news = append(news, where)
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

// Close gives up running folds and waits for them. The subscriptions end with the proc.
func (r *Router) Close() {
	r.once.Do(func() {
		r.cancel()
		if r.aggregations != nil {
			r.aggregations.close()
		}
	})
}

// receive takes a cast off the bus, on the data pump.
func (r *Router) receive(m bus.Msg) {
	s, err := r.p.Space().Parse(m.Subject)
	if err != nil {
		r.p.Foreign().Refuse(m, err)
		return
	}
	if !wire.IsPacket(m.Data) {
		r.receivePlain(m, s)
		return
	}
	r.p.Casts().Receive(m, s, func(from subjects.ActorID, n uint64,
		e *wire.Envelope) (k actor.ReceivedCast, err error) {
		var h header
		k.Prev = link.NotIncluded
		if err := r.decodeHeader(&h, e.Ext); err != nil {
			return k, err
		}
		first, end := r.localRanks(&h)
		switch {
		case first < 0:
			return k, nil
		case r.isStale(&h, first):
			k.Reject = func() error { return r.rejectStale(from, e, &h, first, end) }
			return k, nil
		case genAt(h.Gens, first) != r.p.ID().Gen:
			return k, nil
		}
		k.Prev, err = h.prev(first)
		k.ReplyAcks = h.Mode.aggregates()
		k.Deliver = func() error { return r.deliver(from, s.Sender, n, e, h, nil) } // CAST-1
		return k, err
	})
}

// matching yields the members that match a token, in rank order.
func (r *Router) matching(where string) iter.Seq2[int, localMember] {
	return func(yield func(int, localMember) bool) {
		r.mu.RLock()
		all := slices.Clone(r.members)
		r.mu.RUnlock()
		for i, to := range all {
			if to.p != nil && slices.Contains(whereTokens(r.placement.Extent, to.point), where) &&
				!yield(int(r.p.ID().Rank)+i, to) {
				return
			}
		}
	}
}

// localRanks is the range of a cast's ranks in this process, from its first rank in the region on;
// -1 when the cast asks none of them.
func (r *Router) localRanks(h *header) (first, end int) {
	base := int(r.p.ID().Rank)
	for rank := base; rank < base+max(r.placement.PerProcess, 1); rank++ {
		if view, in := h.Region.ViewRank(rank); in {
			end = h.tree(r.placement).processEnd(view)
			if !h.Asked.IsEmpty() && !h.Asked.Intersects(view, end) {
				return -1, -1
			}
			return view, end
		}
	}
	return -1, -1
}

// decodeHeader decodes the header of a cast to this mesh. The mesh may have grown since this
// process started. Its ranks keep their places, so a region beyond the known extent is one of the
// grown mesh.
func (r *Router) decodeHeader(h *header, ext []byte) error {
	if err := h.decode(ext); err != nil {
		return err
	}
	last, err := h.Region.BaseRank(h.Region.NumRanks() - 1) // the highest
	if err == nil && last >= max(MaxRanks, r.placement.Extent.NumRanks()) {
		err = fmt.Errorf("cast header: region %s is not in the mesh's extent %s", h.Region, r.placement.Extent)
	}
	if err == nil && last >= r.placement.Extent.NumRanks() {
		r.p.Members().NoteRanks(r.placement.Mesh, last+1)
	}
	return err
}

// receiveDirect handles a cast for this process alone, in order with its sender's other messages.
func (r *Router) receiveDirect(from subjects.ActorID, by subjects.Sender, e *wire.Envelope) error {
	var h header
	err := r.decodeHeader(&h, e.Ext)
	if err == nil {
		first, _ := r.localRanks(&h)
		if first < 0 {
			err = fmt.Errorf("rank %d is not in the region of the cast", r.p.ID().Rank)
		} else if genAt(h.Gens, first) != r.p.ID().Gen {
			err = fmt.Errorf("the cast asks for generation %d of rank %d", genAt(h.Gens, first), r.p.ID().Rank)
		}
	}
	if err != nil {
		return &actor.Error{Code: actor.CodeBadMessage, Actor: e.Actor, Endpoint: e.Port, Text: err.Error()}
	}
	own := *e
	return r.deliver(from, by, 0, &own, h, nil)
}

// deliver hands a cast to the actors of this process, each with its point in the region (CAST-1). n
// is its number, 0 for a direct cast. Without answers, refused gets the unreached ranks; if it is
// nil, the sender gets them, rank by rank. An error is about all of them.
func (r *Router) deliver(from subjects.ActorID, by subjects.Sender, n uint64, e *wire.Envelope, h header,
	refused func(view int, why error)) error {
	first, end := r.localRanks(&h)
	first = h.skip.FirstAbsent(first)
	if first >= end {
		return nil
	}
	f := &actor.Delivery{Actor: e.Actor, Port: e.Port, From: from, Sender: by, Raw: e.Body,
		Reply: h.ReplyPort, Point: h.point}
	if h.Trace != nil {
		f.Trace = (*wire.Trace)(h.Trace)
	}
	if e.TTL > 0 {
		f.Deadline = time.Now().Add(e.TTL)
	}
	answer, unknown, err := r.answerSink(castOrigin{from, n, f.Deadline}, e, &h, first)
	if err != nil {
		return err
	}
	if span := r.startReceiveSpan(f, &h, first, end); span != nil {
		if answer == nil { // the ends of its handlers are not reported
			defer span.sent()
		} else {
			answer = span.count(answer)
		}
	}
	f.Answer = answer
	if answer == nil {
		f.Refused = refused
	}
	to, absent := r.localRecipients(&h, first, end)
	if unknown != nil { // no handler runs (CAST-5)
		for _, at := range to {
			answer(at.View, actor.Answer{Err: unknown})
		}
		to = nil
	}
	if answer == nil && refused == nil && len(to)+len(absent) == 1 { // the other messages in it are refused, too
		for _, view := range absent {
			return r.absentError(&h, view)
		}
		return to[0].Proc.Casts().DeliverOne(f, to[0].View)
	}
	for _, view := range absent {
		switch err := r.absentError(&h, view); {
		case answer != nil:
			answer(view, actor.Answer{Err: err})
		case refused != nil:
			refused(view, err)
		default:
			r.p.Casts().Bounce(f, err)
		}
	}
	r.p.Casts().DeliverAll(f, to)
	return nil
}

// localRecipients are the running and the absent ranks of a cast in this process.
func (r *Router) localRecipients(h *header, first, end int) (to []actor.LocalRecipient, absent []int) {
	to = make([]actor.LocalRecipient, 0, end-first)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for view := first; view < end; view = h.skip.FirstAbsent(view + 1) {
		if m, here := r.memberAt(h, view); here {
			to = append(to, actor.LocalRecipient{Proc: m.p, View: view})
		} else {
			absent = append(absent, view)
		}
	}
	return to, absent
}

// memberAt is the member of a rank. The lock is held.
func (r *Router) memberAt(h *header, view int) (to localMember, here bool) {
	base, err := h.Region.BaseRank(view)
	i := base - int(r.p.ID().Rank)
	if err != nil || i < 0 || i >= len(r.members) || r.members[i].p == nil {
		return localMember{}, false
	}
	return r.members[i], true
}

// procFor is the proc that speaks for a rank.
func (r *Router) procFor(h *header, view int) *actor.Proc {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if to, here := r.memberAt(h, view); here {
		return to.p
	}
	return r.p
}

// absentError is the error for a rank of this process that does not run.
func (r *Router) absentError(h *header, view int) error {
	base, _ := h.Region.BaseRank(view)
	id := r.placement.Proc(base)
	id.Gen = r.p.ID().Gen
	return &actor.Error{Code: actor.CodeNoProc, Actor: id.String(), Text: "process " + id.Process().String() +
		" has no proc " + id.String()}
}

// answerSink returns the sink for the answers of this process's ranks: the caller, or the local
// fold; nil: no answers. refused is each rank's answer when the reducer is unknown.
func (r *Router) answerSink(s castOrigin, e *wire.Envelope, h *header,
	first int) (answer func(view int, a actor.Answer), refused, err error) {
	if h.Mode == modeSend {
		return nil, nil, nil
	}
	home, err := subjects.ParsePortID(h.ReplyPort)
	if err != nil {
		return nil, nil, &actor.Error{Code: actor.CodeBadMessage, Actor: e.Actor, Endpoint: e.Port,
			Text: "a cast without a valid reply address: " + err.Error()}
	}
	name := e.Actor
	if h.Mode == modeEach {
		return func(view int, a actor.Answer) {
			r.procFor(h, view).Casts().SendAnswer(name, home, a, encodeReply(replyHeader{Rank: view}))
		}, nil, nil
	}
	j := newJob(h.tree(r.placement), h.Mode, first)
	if r.isStale(h, first) { // it folds for no other process
		j.hi = j.ownEnd
	}
	j.origin = s
	j.asked = h.Asked
	j.gone = h.Skip
	j.replyTo = home
	j.castID = h.ReplyPort
	j.actor = name
	j.endpoint = e.Port
	j.reducer = h.Reducer
	j.ttl = e.TTL
	if h.ProgressMillis > 0 {
		j.progressEvery = max(time.Duration(h.ProgressMillis)*time.Millisecond, minProgressInterval)
		j.partialValues = h.PartialValues
	}
	unknown := r.aggregations.findReducer(&j)
	f := r.aggregations.begin(j)
	return func(view int, a actor.Answer) { r.aggregations.addLocal(f, view, a) }, unknown, nil
}

// encodeReply encodes the ext of an answer; its fields always encode.
func encodeReply(r replyHeader) []byte {
	b, err := wire.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("cast: encode the ext of an answer: %v", err))
	}
	return b
}
