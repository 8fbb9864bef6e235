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
		tally: newTally(t, q.mode == modeFold), p: p, target: t, endpoint: q.endpoint,
		answers: make(chan actor.Incoming, n+1), losses: make(chan lost, n), over: make(chan error, 1),
	}
	h := header{Region: t.Region, Mode: q.mode, Reducer: q.reducer}
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
		default: // more answers than ranks: somebody repeats itself
		}
	}, func(err error) { a.over <- err })
	told := make([]atomic.Bool, len(a.fates))
	a.lose = func(id subjects.ProcID, err error) {
		if view, in := a.placement.view(a.region, id); in && !told[view].Swap(true) {
			a.losses <- lost{view, err} // has room for one of each rank
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

// publish sends the cast: one publish for every member in other processes, one delivery for a member
// in this one.
func (a *asking) publish(ctx context.Context, from string, h header, body []byte, typ string) error {
	t := a.target
	where, err := wherePlan(t.Placement.Extent, t.Region)
	if err != nil {
		return err
	}
	m := &actor.Multicast{
		Subject:  a.p.Space().Cast(t.Placement.Mesh, t.Actor, a.endpoint, where, a.p.ID().Process().String()),
		Envelope: wire.Envelope{Kind: wire.Cast, Sender: from, Body: body}, Type: typ,
	}
	if d, ok := ctx.Deadline(); ok {
		m.Until = d
		if h.Mode != modePost {
			m.Envelope.TTL = max(time.Until(d), time.Millisecond)
		}
	}
	if h.Mode != modePost {
		m.Told = func(id subjects.ProcID, why *actor.Error) { a.lose(id, why) }
	}
	var ranks []int
	self := -1
	for view, base := range t.Region.Ranks() {
		switch id := t.Placement.Proc(base); {
		case a.fates[view] != waiting:
		case id == a.p.ID():
			self = view
		default:
			m.To, ranks = append(m.To, id.Actor(t.Actor).Port(a.endpoint)), append(ranks, view)
		}
	}
	h.Skip = a.skipped()
	m.Head = func(prevs []uint64) ([]byte, error) {
		all := make([]uint64, len(a.fates))
		for i := range all {
			all[i] = link.Left
		}
		for i, view := range ranks {
			all[view] = prevs[i]
		}
		h.Prevs = runs(all)
		return wire.Marshal(h)
	}
	m.Alone = func(int) ([]byte, error) {
		h.Prevs = nil
		return wire.Marshal(h)
	}
	if len(m.To) > 0 {
		failed, err := a.p.Multicast(m)
		if err != nil {
			return err
		}
		for i, why := range failed {
			a.unreachable(ranks[i], why)
		}
	}
	if self < 0 {
		return nil
	}
	return a.local(m.Envelope, h, self)
}

// skipped are the ranks nobody shall wait for.
func (a *asking) skipped() []span {
	var out []int
	for view, f := range a.fates {
		if f != waiting {
			out = append(out, view)
		}
	}
	return spans(out)
}

// local hands the cast to the member in the caller's own process.
func (a *asking) local(e wire.Envelope, h header, view int) error {
	r, ok := a.p.Value(routerKey{}).(*Router)
	if !ok {
		return errors.New("no router on this proc: cast.Start it")
	}
	h.Skip = a.skipped()
	e.Actor, e.Port = a.target.Actor, a.endpoint
	if err := r.deliver(a.p.ID().Actor(e.Sender), &e, h, view); err != nil {
		a.settle(view, failed, err)
	}
	return nil
}

// next waits for one event and puts it into the tally. It reports false once every rank is
// settled, which the end of ctx sees to.
func (a *asking) next(ctx context.Context) bool {
	if a.open == 0 {
		return false
	}
	select {
	case in := <-a.answers:
		a.take(in)
	case l := <-a.losses:
		a.settleAnswers() // an answer that came before the death counts
		a.unreachable(l.rank, l.err)
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
			a.take(in)
		default:
			return
		}
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
