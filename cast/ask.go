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
	if err := a.publish(ctx, from, h, body); err != nil {
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
	cancel := a.p.OnUnreachable(func(id subjects.ProcID, err error) {
		if view, in := a.placement.view(a.region, id); in && !told[view].Swap(true) {
			a.losses <- lost{view, err} // has room for one of each rank
		}
	})
	a.release = append(a.release, port.Close, cancel)
	return port.ID().String()
}

func (a *asking) close() {
	for _, f := range a.release {
		f()
	}
}

// publish sends the cast frame: one publish for every member in other processes, one delivery for
// a member in this one.
func (a *asking) publish(ctx context.Context, from string, h header, body []byte) error {
	t := a.target
	where, err := wherePlan(t.Placement.Extent, t.Region)
	if err != nil {
		return err
	}
	f := wire.Frame{Kind: wire.Cast, Sender: from, Body: body}
	if d, ok := ctx.Deadline(); ok && h.Mode != modePost {
		f.TTL = max(time.Until(d), time.Millisecond)
	}
	var to []subjects.ProcessID
	var ranks []int
	self := -1
	for view, base := range t.Region.Ranks() {
		switch id := t.Placement.Proc(base); {
		case a.fates[view] != waiting:
		case id == a.p.ID():
			self = view
		default:
			to, ranks = append(to, id.Process()), append(ranks, view)
		}
	}
	stamp := func(n uint64, prevs []uint64) (wire.Frame, error) {
		f.Ext, err = a.stamp(h, ranks, prevs)
		return f, err
	}
	if len(to) > 0 {
		subject := a.p.Space().Cast(t.Placement.Mesh, t.Actor, a.endpoint, where, a.p.ID().Process().String())
		broken, err := a.p.Multicast(subject, to, stamp)
		if err != nil {
			return err
		}
		for _, b := range broken { // the frame says that they are not meant, so nobody folds for them
			if view, in := a.placement.view(a.region, b.Peer.Proc()); in {
				a.settle(view, failed, &actor.Error{Code: actor.CodeLinkBroken, Text: b.Error()})
			}
		}
	}
	if self < 0 {
		return nil
	}
	return a.local(f, h, self)
}

// stamp encodes the header with each member's prev. prevs belong to ranks, in order; the ranks
// left out, and those whose link is broken, are skipped.
func (a *asking) stamp(h header, ranks []int, prevs []uint64) ([]byte, error) {
	all := make([]uint64, len(a.fates))
	for i, view := range ranks {
		all[view] = prevs[i]
	}
	h.Skip = a.skipped(all)
	h.Prevs = runs(all)
	return wire.Marshal(h)
}

// skipped are the ranks nobody shall wait for.
func (a *asking) skipped(prevs []uint64) []span {
	var out []int
	for view, f := range a.fates {
		if f != waiting || prevs[view] == link.Left {
			out = append(out, view)
		}
	}
	return spans(out)
}

// local hands the cast to the member in the caller's own process.
func (a *asking) local(f wire.Frame, h header, view int) error {
	r, ok := a.p.Value(routerKey{}).(*Router)
	if !ok {
		return errors.New("no router on this proc: cast.Start it")
	}
	h.Skip = a.skipped(make([]uint64, len(a.fates)))
	r.deliver(a.target.Actor, a.endpoint, a.p.ID().Actor(f.Sender), f, h, view)
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
