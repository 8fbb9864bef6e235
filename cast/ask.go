package cast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// lost is the word that ranks of the region cannot be reached.
type lost struct {
	ranks span
	err   error
}

// asking is one cast that waits for its answers, at the caller.
//
//	send ── publish ──▶ members ── answers ──▶ raw port ── inbox ──▶ next ──▶ tally
//	                    deaths ── OnUnreachable ────────── inbox ──┘
type asking struct {
	*tally
	p        *actor.Proc
	router   *Router
	target   Target
	tree     tree
	route    *route
	endpoint string
	release  []func()
	left     bool // the caller has gone before the deadline

	home    string   // the port that the answers come to; "": none do
	numbers []uint64 // of the route's packets, when answers say whom they have reached

	news chan struct{} // there is something in the inbox
	over chan error    // holds why no answer comes any more: the caller's actor or proc has ended

	partly time.Duration // how often it comes what others have folded so far; 0: never

	way  tree // by which they come
	mode mode
	told int // how many were settled, the last time that was said

	mu      sync.Mutex // guards the inbox
	late    bool       // whoever is silent now folds for nobody any more
	answers []actor.Incoming
	losses  []lost
	ahead   []bool                     // who is known to have an answer on its way, by rank
	words   map[subjects.ProcID][]part // what each folder had folded, when it last said so
}

// question is what a cast says.
type question struct {
	endpoint string
	message  any
	mode     mode
	reducer  string
	apex     bool // home gets one value
	// partly is how often home gets what is folded so far; 0: never.
	partly time.Duration
}

// send casts a question. On success the caller owns the asking and closes it.
func send(ctx context.Context, t Target, q question) (*asking, error) {
	p, from := actor.Sender(ctx, t.Via)
	if p == nil {
		return nil, &actor.Error{Code: actor.CodeInvalid, Text: "nobody to cast as: cast from an actor's handler, or to a mesh bound to a proc"}
	}
	if err := p.Barred(from); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, silence(ctx) // nothing is sent for a caller that has gone
	}
	body, err := wire.Marshal(q.message)
	if err != nil {
		return nil, fmt.Errorf("cast %s: %w", q.endpoint, err)
	}
	if err := p.Follow(t.Placement.Mesh, t.Placement.Extent.NumRanks()); err != nil { // before anything is sent there
		return nil, err
	}
	router, ok := p.Value(routerKey{}).(*Router)
	if !ok {
		return nil, errors.New("no router on this proc: cast.Start it")
	}
	route, err := router.routes.to(p.First(), t, q.endpoint)
	if err != nil {
		return nil, err
	}
	a := &asking{
		tally: newTally(t), p: p, target: t, endpoint: q.endpoint, router: router, route: route,
		tree: route.tree, partly: q.partly,
		news: make(chan struct{}, 1), over: make(chan error, 1),
	}
	a.gens = route.tree.gens
	h := header{Region: t.Region, Gens: a.gens, Mode: q.mode, Reducer: q.reducer, Within: t.within, Apex: q.apex}
	if q.mode != modePost {
		a.home = a.listen(from)
		h.Home = a.home
	}
	a.bury(route.gone)
	if p.Changes(t.Placement.Mesh) != route.changes { // who has died since is heard of by listen, or here
		a.bury(a.tree.ended(p))
	}
	err = a.publish(ctx, from, h, body, fmt.Sprintf("%T", q.message))
	router.routes.done(p.First(), route)
	if err != nil {
		a.close()
		return nil, fmt.Errorf("cast %s to %s on %s: %w", q.endpoint, t.Actor, t.Placement.Mesh, err)
	}
	return a, nil
}

// listen opens the port the answers come to, and hears of every rank that is lost.
func (a *asking) listen(from string) string {
	most := 2*len(a.fates) + 1 // a word of each rank, and once more when it is sent another way
	port := a.p.OpenPrivate(from, func(in actor.Incoming) {
		if a.isWord(in) {
			return
		}
		a.post(func() {
			if len(a.answers) < most { // else somebody repeats itself
				a.answers = append(a.answers, in)
			}
		})
	}, func(err error) { a.over <- err })
	cancel := a.p.OnUnreachable(a.lose)
	a.release = append(a.release, port.Close, cancel)
	return port.ID().String()
}

// lose takes the word that a proc is gone, on any goroutine.
func (a *asking) lose(id subjects.ProcID, err error) {
	if gone := a.tree.of(id); gone.Count > 0 {
		a.post(func() {
			if len(a.losses) <= len(a.fates) {
				a.losses = append(a.losses, lost{gone, err})
			}
		})
	}
}

// post puts something into the inbox.
func (a *asking) post(put func()) {
	a.mu.Lock()
	put()
	a.mu.Unlock()
	select {
	case a.news <- struct{}{}:
	default: // it is known already
	}
}

// bury settles ranks that nothing is sent to.
func (a *asking) bury(all []lost) {
	for _, l := range all {
		for view := l.ranks.First; view < l.ranks.end(); view++ {
			a.settle(view, failed, l.err)
		}
	}
}

// close ends the cast. Processes that owe answers nobody waits for any more are told; at the deadline they
// know it themselves.
func (a *asking) close() {
	for _, f := range a.release {
		f()
	}
	if !a.left && a.open == 0 || a.home == "" {
		return
	}
	for _, k := range a.route.packets {
		for _, m := range k.members {
			if a.owes(m.view) {
				a.p.GiveUp(m.id, a.home)
			}
		}
	}
	if here := a.route.here; here >= 0 && a.owes(here) {
		a.p.GiveUp(a.p.First().ID(), a.home)
	}
}

// owes reports whether some rank in the process of a rank has not answered.
func (a *asking) owes(view int) bool {
	for end := a.tree.processEnd(view); view < end; view++ {
		if f := a.fates[view]; f == waiting || f == missing {
			return true
		}
	}
	return false
}

// publish sends the cast: as few packets as the plan says for members in other processes, one delivery for
// those in this one.
func (a *asking) publish(ctx context.Context, from string, h header, body []byte, typ string) error {
	t := a.target
	m := actor.Multicast{Envelope: wire.Envelope{Kind: wire.Cast, Sender: from, Body: body}, Type: typ}
	if d, ok := ctx.Deadline(); ok {
		m.Until = d
		if h.Mode != modePost {
			m.Envelope.TTL = max(time.Until(d), time.Millisecond)
		}
	}
	h.Skip = a.skipped()
	m.Told = func(id subjects.ProcID, why *actor.Error) { a.lose(id, why) }
	if h.Mode == modePost {
		m.Told = returning(a.p, from, typ, t.Actor, a.tree, h.Skip)
	}
	if m.Answers = h.Mode.folds(); m.Answers {
		h.Tell, h.Partly = a.tells()
		a.way, a.mode = h.tree(t.Placement), h.Mode
		a.askLate(m.Envelope.TTL)
	}
	for _, k := range a.route.packets {
		if k.where != "" {
			m.Subject = a.p.Space().Cast(t.Placement.Mesh, t.Actor, a.endpoint, k.where, a.p.First().ID().Process().String())
		}
		if err := a.multicast(m, h, k); err != nil {
			return err
		}
	}
	if a.route.here < 0 {
		return nil
	}
	h.Skip = a.skipped()
	return a.local(m.Envelope, h)
}

// returning is told of processes that a posted cast did not reach: it comes back for each of their ranks.
func returning(p *actor.Proc, from, typ, to string, t tree, skip ranks) func(subjects.ProcID, *actor.Error) {
	return func(id subjects.ProcID, why *actor.Error) {
		gone := t.of(id)
		for view := gone.First; view < gone.end(); view++ {
			if skip.contains(view) {
				continue
			}
			of := *why
			of.Actor = t.proc(view).Actor(to).String()
			p.ComeBack(from, typ, &of)
		}
	}
}

// multicast sends one packet, or one to each of its members.
func (a *asking) multicast(m actor.Multicast, h header, k packet) error {
	m.To = k.group
	m.Head = func(prevs []link.Run) ([]byte, error) {
		h.number(a.route.prevs(k, prevs))
		return wire.Marshal(h)
	}
	alone := h
	m.Alone = func(int) ([]byte, error) { return wire.Marshal(alone) }
	refused, err := a.p.Multicast(&m)
	if err != nil {
		return err
	}
	if a.numbers = append(a.numbers, m.N); !m.Answers {
		a.numbers = nil
	}
	for i, why := range refused {
		for view := k.members[i].view; view < a.tree.processEnd(k.members[i].view); view++ {
			a.settle(view, failed, why)
		}
	}
	return nil
}

// skipped are the ranks nobody shall wait for.
func (a *asking) skipped() (out ranks) {
	for view, f := range a.fates {
		if f != waiting {
			out = out.with(span{view, 1})
		}
	}
	return out
}

// local hands the cast to the members in the caller's own process.
func (a *asking) local(e wire.Envelope, h header) error {
	if first, _ := a.router.ranks(&h); first < 0 {
		return nil // they have closed, or are not started
	}
	e.Actor, e.Port = a.target.Actor, a.endpoint
	return a.router.deliver(a.p.ID().Actor(e.Sender), 0, &e, h, func(view int, why error) { a.settle(view, failed, why) })
}

// next waits for one event and puts it into the tally. It reports false once every rank is
// settled, which the end of ctx sees to.
func (a *asking) next(ctx context.Context) bool {
	if a.open == 0 {
		return false
	}
	select {
	case <-a.news:
		a.read()
	case err := <-a.over:
		a.read()
		a.expire(err)
	case <-ctx.Done():
		a.read()
		a.left = !errors.Is(ctx.Err(), context.DeadlineExceeded)
		a.expire(silence(ctx))
	}
	a.tell()
	return true
}

// read empties the inbox. An answer that came before a death counts.
func (a *asking) read() {
	a.mu.Lock()
	answers, losses, late := a.answers, a.losses, a.late
	a.answers, a.losses, a.late = nil, nil, false
	a.mu.Unlock()
	for _, in := range answers {
		a.hear(in)
	}
	a.reached()
	for _, l := range losses {
		for view := l.ranks.First; view < l.ranks.end(); view++ {
			a.settle(view, failed, l.err)
		}
	}
	if late {
		a.ask()
	}
}

// hear takes an answer.
func (a *asking) hear(in actor.Incoming) {
	if err := a.take(in); err != nil {
		log := a.p.Log()
		log.Warn().Err(err).Stringer("from", in.From).Str("endpoint", a.endpoint).Msg("an answer to a cast that cannot be read")
	}
}

// silence is the reason of a rank that never answered.
func silence(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &actor.Error{Code: actor.CodeDeadline, Text: "no answer within the deadline"}
	}
	return &actor.Error{Code: actor.CodeCanceled, Text: "the caller gave up: " + context.Cause(ctx).Error()}
}

// err is the *CoverageError of a cast that is not whole; nil when it is.
func (a *asking) err() error {
	c := a.coverage()
	if c.Whole() {
		return nil
	}
	return &CoverageError{Mesh: a.target.Placement.Mesh.String(), Actor: a.target.Actor, Endpoint: a.endpoint, Coverage: c}
}
