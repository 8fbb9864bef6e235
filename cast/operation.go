package cast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// lostRanks reports ranks of the region that cannot be reached.
type lostRanks struct {
	ranks shape.RankRun
	err   error
}

// operation is one cast that waits for its answers, at the caller: a batch of a rollout.
//
//	send ── publish ──▶ members ── answers ──▶ raw port ── inbox ──▶ awaitEvent ──▶ collector
//	                    deaths ── OnUnreachable ────────── inbox ──┘
type operation struct {
	*rollout
	p       *actor.Proc
	router  *Router
	asked   shape.Ranks
	gens    runs // of those that are asked
	tree    tree
	route   *route
	release []func()

	replyPort     string          // the port that the answers come to; "": none do
	packetNumbers []uint64        // of the route's packets, when answers say whom they have reached
	received      []shape.RankRun // with folded answers since the last ackAnswered; not in order

	wake    chan struct{} // there is something in the inbox
	aborted chan error    // has the reason when the caller's actor or proc has ended

	replyTree tree // by which they come

	mu         sync.Mutex // guards the inbox
	rerouteDue bool       // silent folders are bypassed from now on
	answers    []actor.Incoming
	losses     []lostRanks
	announced  []bool                     // ranks with an answer on its way
	progress   map[subjects.ProcID][]part // last partial fold of each folder
}

// castRequest is the content of a cast.
type castRequest struct {
	kind       string
	endpoint   string
	message    any
	mode       mode
	open       func(actor.Answer) (any, error) // decodes the answer of one rank; nil: later
	reducer    string
	singleRoot bool // home gets one value
	// partialEvery is the period of partial folds for the caller; 0: never.
	partialEvery time.Duration
}

// send casts a question to some ranks, which the rollout waits for. On success the caller owns the
// operation and closes it.
func send(ctx context.Context, r *rollout, asked shape.Ranks) (*operation, error) {
	t := r.target
	q := r.request
	p, from, err := t.sender(ctx)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, silenceError(ctx) // nothing is sent for a caller that has gone
	}
	body, err := wire.Marshal(q.message)
	if err != nil {
		return nil, fmt.Errorf("cast %s: %w", q.endpoint, err)
	}
	// before anything is sent there
	if err := p.Members().FollowMesh(t.Placement.Mesh, t.Placement.Extent.NumRanks()); err != nil {
		return nil, err
	}
	router, ok := p.Values().Get(routerKey{}).(*Router)
	if !ok {
		return nil, errors.New("the proc has no router: call cast.Start")
	}
	route, err := router.routes.acquire(p.Lead(), t, asked, q.endpoint)
	if err != nil {
		return nil, err
	}
	r.counts = &router.counts
	a := &operation{
		rollout: r, p: p, asked: asked, router: router, route: route, tree: route.tree, gens: route.tree.gens,
		wake: make(chan struct{}, 1), aborted: make(chan error, 1),
	}
	h := header{Region: t.Region, Gens: a.gens, Mode: q.mode, Reducer: q.reducer, SingleRoot: q.singleRoot,
		Trace: p.Casts().Trace(ctx)}
	if asked.Len() < t.Region.NumRanks() {
		h.Asked = asked
	}
	if q.mode != modeSend {
		a.replyPort = a.listen(from)
		h.ReplyPort = a.replyPort
		a.refuseSelf(ctx)
	}
	a.failLost(route.unreachable)
	if !route.isCurrent(p) { // later deaths are reported by listen, or here
		a.failLost(a.tree.endedRanks(p))
	}
	err = a.publish(ctx, from, h, body, fmt.Sprintf("%T", q.message))
	router.routes.release(route)
	if err != nil {
		a.close()
		return nil, fmt.Errorf("cast %s to %s on %s: %w", q.endpoint, t.Actor, t.Placement.Mesh, err)
	}
	return a, nil
}

// listen opens the port for the answers, and subscribes to lost ranks.
func (a *operation) listen(from string) string {
	most := 2*a.asked.Len() + 1 // one message per rank, and one more after a reroute
	port := actor.OpenPrivate(a.p, from, func(in actor.Incoming) {
		if a.isProgress(in) {
			return
		}
		a.enqueue(func() {
			if len(a.answers) < most { // else a peer repeats messages
				a.answers = append(a.answers, in)
			}
		})
	}, func(err error) { a.aborted <- err })
	cancel := a.p.Members().OnUnreachable(a.onUnreachable)
	a.release = append(a.release, port.Close, cancel)
	return port.ID().String()
}

// onUnreachable records that a proc is gone, on any goroutine.
func (a *operation) onUnreachable(id subjects.ProcID, err error) {
	if gone := a.tree.ranksLostWith(id); gone.Count > 0 {
		a.enqueue(func() {
			if len(a.losses) <= len(a.fates) {
				a.losses = append(a.losses, lostRanks{gone, err})
			}
		})
	}
}

// enqueue puts something into the inbox.
func (a *operation) enqueue(put func()) {
	a.mu.Lock()
	put()
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default: // it is known already
	}
}

// failLost settles ranks that cannot be reached; nothing is sent to them.
func (a *operation) failLost(all []lostRanks) {
	for _, l := range all {
		a.fail(shape.Interval(l.ranks.First, l.ranks.Count), failed, l.err)
	}
}

// refuseSelf settles the rank of an actor that casts on its turn. It would wait for itself.
func (a *operation) refuseSelf(ctx context.Context) {
	why := a.p.Casts().SelfCall(ctx, a.target.Actor, a.request.endpoint)
	own := a.tree.ranksLostWith(a.p.ID())
	for view := own.First; why != nil && view < own.End(); view++ {
		if a.tree.proc(view) == a.p.ID() {
			a.fail(shape.Interval(view, 1), failed, why)
		}
	}
}

// close ends the cast. It tells processes whose answers are no longer needed; at the deadline they
// stop by themselves.
func (a *operation) close() {
	for _, f := range a.release {
		f()
	}
	if !a.abandoned && a.pending == 0 || a.replyPort == "" {
		return
	}
	for _, k := range a.route.packets {
		for _, m := range k.members {
			if a.isAwaiting(m.view) {
				a.p.Casts().CancelRequest(m.id, a.replyPort)
			}
		}
	}
	if here := a.route.localFirst; here >= 0 && a.isAwaiting(here) {
		a.p.Casts().CancelRequest(a.p.Lead().ID(), a.replyPort)
	}
}

// isAwaiting reports whether some rank in the process of a rank has not answered.
func (a *operation) isAwaiting(view int) bool {
	fates := a.fates[view:a.tree.processEnd(view)]
	return slices.Contains(fates, waiting) || slices.Contains(fates, missing)
}

// publish sends the cast: the plan's packets for members in other processes, one delivery for
// members in this one.
func (a *operation) publish(ctx context.Context, from string, h header, body []byte, typ string) error {
	t := a.target
	m := actor.Multicast{Envelope: wire.Envelope{Kind: wire.Cast, Sender: from, Body: body,
		Hops: a.p.Casts().Hops(ctx)}, Type: typ}
	if d, ok := ctx.Deadline(); ok {
		m.Until = d
		if h.Mode != modeSend {
			m.Envelope.TTL = max(time.Until(d), time.Millisecond)
		}
	}
	h.setSkip(a.goneRanks())
	m.OnFate = func(id subjects.ProcID, why *actor.Error) { a.onUnreachable(id, why) }
	if h.Mode == modeSend {
		m.OnFate = bounceHandler(a.p, from, typ, t.Actor, a.tree, h.skip)
	}
	m.ReplyAcks = h.Mode.aggregates()
	if m.ReplyAcks {
		h.ProgressMillis, h.PartialValues = a.progressInterval()
		a.replyTree = h.tree(t.Placement)
		a.scheduleReroute(m.Envelope.TTL)
	}
	for _, k := range a.route.packets {
		if k.where != "" {
			m.Subject = a.p.Space().Cast(t.Placement.Mesh, t.Actor, a.request.endpoint, k.where,
				a.p.Sender())
		}
		if err := a.multicast(m, h, k); err != nil {
			return err
		}
	}
	if a.route.localFirst < 0 {
		return nil
	}
	h.setSkip(a.goneRanks())
	return a.deliverLocal(m.Envelope, h)
}

// bounceHandler returns a handler for processes that a sent cast did not reach. It returns the cast
// for each of their ranks.
func bounceHandler(p *actor.Proc, from, typ, to string, t tree, skip shape.Ranks) func(subjects.ProcID,
	*actor.Error) {
	return func(id subjects.ProcID, why *actor.Error) {
		gone := t.ranksLostWith(id)
		for view := gone.First; view < gone.End(); view++ {
			if skip.Contains(view) {
				continue
			}
			of := *why
			of.Actor = t.proc(view).Actor(to).String()
			p.Casts().BounceTo(from, typ, &of)
		}
	}
}

// multicast sends one packet, or one to each of its members.
func (a *operation) multicast(m actor.Multicast, h header, k packet) error {
	m.To = k.group
	m.GroupExt = func(prevs []link.Run) ([]byte, error) {
		h.Prevs = a.route.prevs(k, prevs)
		return wire.Marshal(h)
	}
	alone := h
	m.AloneExt = func() ([]byte, error) { return wire.Marshal(alone) }
	refused, err := a.p.Casts().Multicast(&m)
	if err != nil {
		return err
	}
	a.packetNumbers = append(a.packetNumbers, m.Seq)
	if !m.ReplyAcks {
		a.packetNumbers = nil
	}
	for i, why := range refused {
		first := k.members[i].view
		a.fail(shape.Interval(first, a.tree.processEnd(first)-first), failed, why)
	}
	return nil
}

// goneRanks are the asked ranks that the cast does not wait for.
func (a *operation) goneRanks() shape.Ranks {
	var gone shape.RanksWriter
	for rank, at := range a.fatesOf(a.asked) {
		if *at != waiting {
			gone.Add(rank, 1)
		}
	}
	return gone.Ranks()
}

// deliverLocal hands the cast to the members in the caller's own process.
func (a *operation) deliverLocal(e wire.Envelope, h header) error {
	if first, _ := a.router.localRanks(&h); first < 0 {
		return nil // they have closed, or are not started
	}
	e.Actor = a.target.Actor
	e.Port = a.request.endpoint
	return a.router.deliver(a.p.ID().Actor(e.Sender), subjects.Sender{}, 0, &e, h,
		func(view int, why error) { a.answer(view, actor.Answer{Err: why}) })
}

// awaitEvent waits for one event and records it. It reports false once every rank is settled; the
// end of ctx settles them all.
func (a *operation) awaitEvent(ctx context.Context) bool {
	if a.pending == 0 {
		a.reportProgress() // of ranks that failed at once
		return false
	}
	select {
	case <-a.wake:
		a.drainInbox()
	case err := <-a.aborted:
		a.drainInbox()
		a.expire(err)
	case <-ctx.Done():
		a.drainInbox()
		a.abandoned = !errors.Is(ctx.Err(), context.DeadlineExceeded)
		a.expire(silenceError(ctx))
	}
	a.reportProgress()
	return true
}

// drainInbox empties the inbox. An answer that came before a death counts.
func (a *operation) drainInbox() {
	a.mu.Lock()
	answers := a.answers
	losses := a.losses
	late := a.rerouteDue
	a.answers = nil
	a.losses = nil
	a.rerouteDue = false
	a.mu.Unlock()
	for _, in := range answers {
		a.handleAnswer(in)
	}
	a.ackAnswered()
	a.failLost(losses)
	if late {
		a.reroute()
	}
}

// handleAnswer takes an answer.
func (a *operation) handleAnswer(in actor.Incoming) {
	if err := a.addIncoming(in); err != nil {
		log := a.p.Log()
		log.Warn().Err(err).Stringer("from", in.From).Str("endpoint", a.request.endpoint).
			Msg("cannot decode an answer to a cast")
	}
}

// addIncoming records an answer. It ignores invalid answers, and those that their sender may not
// give.
func (a *operation) addIncoming(in actor.Incoming) error {
	var r replyHeader
	if err := wire.Unmarshal(in.Envelope.Ext, &r); err != nil {
		return err
	}
	if !r.Folded {
		if a.isExpectedSender(r.Rank, in) {
			a.answer(r.Rank, a.open(in.Answer()))
		}
		return nil
	}
	c, err := r.decode(in, len(a.fates))
	if err != nil {
		return err
	}
	a.received = append(a.received, a.contribute(c)...)
	return nil
}

// open decodes the answer of one rank. One that cannot be decoded fails its rank.
func (a *operation) open(answer actor.Answer) actor.Answer {
	if answer.Err != nil || a.request.open == nil {
		return answer
	}
	v, err := a.request.open(answer)
	return actor.Answer{Value: v, Err: err}
}

// isExpectedSender reports whether the sender of a rank's answer is the addressed proc, or the
// first of its process. A later proc of the rank can report that the addressed one is over
// (CAST-10).
func (a *operation) isExpectedSender(rank int, in actor.Incoming) bool {
	base, err := a.target.Region.BaseRank(rank)
	if err != nil {
		return false
	}
	id := a.target.Placement.Proc(base)
	from := in.From.Proc
	id.Gen = genAt(a.gens, rank)
	if from.Gen > id.Gen && in.Envelope.Kind == wire.Failure {
		from.Gen = id.Gen
	}
	return from == id || from == id.Lead()
}

// silenceError is the reason of a rank that never answered.
func silenceError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &actor.Error{Code: actor.CodeDeadline, Text: "no answer within the deadline"}
	}
	return &actor.Error{Code: actor.CodeCanceled, Text: "the caller gave up: " + context.Cause(ctx).Error()}
}
