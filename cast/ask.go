package cast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// lost is the word that a rank of the region cannot be reached.
type lost struct {
	rank int
	err  error
}

// asking is one cast that waits for its answers, at the caller.
//
//	send ── publish ──▶ members ── answers ──▶ raw port ── channel ──▶ next ──▶ tally
//	                    deaths ── OnUnreachable ────────── channel ──┘
type asking struct {
	*tally
	p        *actor.Proc
	target   Target
	tree     tree
	endpoint string
	answers  chan actor.Incoming
	losses   chan lost
	over     chan error // holds why no answer comes any more: the caller's actor or proc has ended
	lose     func(subjects.ProcID, error)
	release  []func()
}

// question is what a cast says.
type question struct {
	endpoint string
	message  any
	mode     mode
	reducer  string
}

// send casts a question. On success the caller owns the asking and closes it.
func send(ctx context.Context, t Target, q question) (*asking, error) {
	p, from := actor.Sender(ctx, t.Via)
	if p == nil {
		return nil, &actor.Error{Code: actor.CodeInvalid, Text: "nobody to cast as: cast from an actor's handler, or to a mesh bound to a proc"}
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, silence(ctx) // nothing is sent for a caller that has gone
	}
	n := t.Region.NumRanks()
	body, err := wire.Marshal(q.message)
	if err != nil {
		return nil, fmt.Errorf("cast %s: %w", q.endpoint, err)
	}
	if err := p.Follow(t.Placement.Mesh); err != nil { // before anything is sent there
		return nil, err
	}
	a := &asking{
		tally: newTally(t), p: p, target: t, endpoint: q.endpoint,
		answers: make(chan actor.Incoming, 2*n+1), losses: make(chan lost, n), over: make(chan error, 1),
		tree: tree{place: t.Placement, region: t.Region},
	}
	h := header{Region: t.Region, Mode: q.mode, Reducer: q.reducer, Within: t.within}
	if q.mode != modePost {
		h.Home = a.listen(from)
	}
	for view, base := range t.Region.Ranks() {
		if e, dead := p.Down(t.Placement.Proc(base)); dead {
			a.settle(view, failed, gone(e))
		}
	}
	if err := a.publish(ctx, from, h, body, fmt.Sprintf("%T", q.message)); err != nil {
		a.close()
		return nil, fmt.Errorf("cast %s to %s on %s: %w", q.endpoint, t.Actor, t.Placement.Mesh, err)
	}
	return a, nil
}

// listen opens the port the answers come to, and hears of every rank that is lost, once each.
func (a *asking) listen(from string) string {
	port := a.p.OpenPrivate(from, func(in actor.Incoming) {
		select {
		case a.answers <- in:
		default: // more answers than there can be: somebody repeats itself
		}
	}, func(err error) { a.over <- err })
	told := make([]atomic.Bool, len(a.fates))
	a.lose = func(id subjects.ProcID, err error) {
		gone := a.tree.of(id)
		for view := gone.First; view < gone.end(); view++ {
			if !told[view].Swap(true) {
				a.losses <- lost{view, err} // has room for one of each rank
			}
		}
	}
	cancel := a.p.OnUnreachable(a.lose)
	a.release = append(a.release, port.Close, cancel)
	return port.ID().String()
}

func (a *asking) close() {
	for _, f := range a.release {
		f()
	}
}

// publish sends the cast: as few packets as the plan says for members in other processes, one delivery for
// those in this one.
func (a *asking) publish(ctx context.Context, from string, h header, body []byte, typ string) error {
	t := a.target
	e := wire.Envelope{Kind: wire.Cast, Sender: from, Body: body}
	m := actor.Multicast{Envelope: e, Type: typ}
	if d, ok := ctx.Deadline(); ok {
		m.Until = d
		if h.Mode != modePost {
			m.Envelope.TTL = max(time.Until(d), time.Millisecond)
		}
	}
	if h.Mode != modePost {
		m.Told = func(id subjects.ProcID, why *actor.Error) { a.lose(id, why) }
	}
	h.Skip = a.skipped()
	members, here := a.members()
	plan := planFor(t.Placement, t.Region, len(members))
	for _, some := range plan.deliveries(members) {
		if err := a.multicast(m, h, plan, some); err != nil {
			return err
		}
	}
	if here < 0 {
		return nil
	}
	h.Skip = a.skipped()
	return a.local(m.Envelope, h)
}

// members are the processes that are to be told; here is the first rank of this one, -1 when there is none.
func (a *asking) members() (all []member, here int) {
	t, here := a.target, -1
	last := -1
	for view, base := range t.Region.Ranks() {
		process := t.Placement.process(base)
		if a.fates[view] != waiting || process == last {
			continue
		}
		last = process
		if id := t.Placement.Proc(process); id == a.p.First().ID() {
			here = view
		} else {
			all = append(all, member{view, base, id})
		}
	}
	return all, here
}

// multicast sends one packet to some of the members, or one to each.
func (a *asking) multicast(m actor.Multicast, h header, p plan, some []member) error {
	t := a.target
	if !p.direct() {
		m.Subject = a.p.Space().Cast(t.Placement.Mesh, t.Actor, a.endpoint, p.where(some[0].base), a.p.ID().Process().String())
	}
	for _, to := range some {
		m.To = append(m.To, to.id.Actor(t.Actor).Port(a.endpoint))
	}
	m.Head = func(prevs []uint64) ([]byte, error) {
		h.Prevs = a.prevs(some, prevs)
		return wire.Marshal(h)
	}
	alone := h
	m.Alone = func(int) ([]byte, error) { return wire.Marshal(alone) }
	refused, err := a.p.Multicast(&m)
	if err != nil {
		return err
	}
	for i, why := range refused {
		for view := some[i].view; view < a.tree.processEnd(some[i].view); view++ {
			a.settle(view, failed, why)
		}
	}
	return nil
}

// prevs spreads what the link to each process has in front over its ranks.
func (a *asking) prevs(some []member, prevs []uint64) (out []run) {
	add := func(n int, v uint64) {
		if k := len(out); n > 0 && k > 0 && out[k-1].Value == v {
			out[k-1].Count += n
		} else if n > 0 {
			out = append(out, run{n, v})
		}
	}
	t, next := a.tree, 0
	for i, m := range some {
		add(m.view-next, link.Left)
		next = t.processEnd(m.view)
		add(next-m.view, prevs[i])
	}
	add(len(a.fates)-next, link.Left)
	return out
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
	r, ok := a.p.Value(routerKey{}).(*Router)
	if !ok {
		return errors.New("no router on this proc: cast.Start it")
	}
	e.Actor, e.Port = a.target.Actor, a.endpoint
	return r.deliver(a.p.ID().Actor(e.Sender), &e, h)
}

// next waits for one event and puts it into the tally. It reports false once every rank is
// settled, which the end of ctx sees to.
func (a *asking) next(ctx context.Context) bool {
	if a.open == 0 {
		return false
	}
	select {
	case in := <-a.answers:
		a.hear(in)
	case l := <-a.losses:
		a.settleAnswers() // an answer that came before the death counts
		a.settle(l.rank, failed, l.err)
	case err := <-a.over:
		a.settleAnswers()
		a.expire(err)
	case <-ctx.Done():
		a.settleAnswers()
		a.expire(silence(ctx))
	}
	return true
}

func (a *asking) settleAnswers() {
	for {
		select {
		case in := <-a.answers:
			a.hear(in)
		default:
			return
		}
	}
}

// hear takes an answer.
func (a *asking) hear(in actor.Incoming) {
	if err := a.take(in); err != nil {
		log := a.p.Log()
		log.Warn().Err(err).Stringer("from", in.From).Str("endpoint", a.endpoint).Msg("an answer to a cast that cannot be read")
	}
}

// gone is the reason of a rank whose proc has ended.
func gone(e actor.Event) error {
	return &actor.Error{Code: actor.CodeProcDead, Text: "the proc is gone: " + cmp.Or(e.Reason, e.Status)}
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
