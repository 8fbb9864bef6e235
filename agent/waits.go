package agent

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// answerMargin is the time between the reply of a wait and the caller's deadline (AGT-5). It
// exceeds the margin of cast collectors, so they still receive the reply.
const answerMargin = 500 * time.Millisecond

// ReplyWhen replies to the present message once a condition on a resource holds, at the latest
// shortly before the caller's deadline. It adds shift to the ranks of the reply. The handler's own
// result is ignored, except for an error: an unsatisfiable condition.
func (t *Table) ReplyWhen(ctx *actor.Context, until WaitRequest, shift int) error {
	if until.Until < Initializing || until.Until > Failed {
		return fmt.Errorf("wait for %s until %s: want a phase that a rank can be in: initializing to failed",
			until.ID, until.Until)
	}
	answer := actor.Defer[Overlay](ctx)
	answered, cancel := false, func() {}
	giveUp := t.Wait(until, func(o Overlay) {
		answered = true
		cancel()
		answer.Reply(o.Shift(shift), nil)
	})
	if answered {
		return nil
	}
	left := actor.DefaultDeadline // for a caller without deadline, so that no wait is endless
	if d, ok := ctx.Deadline(); ok {
		left = time.Until(d)
	}
	cancel = ctx.After(BeforeDeadline(left), func(*actor.Context) { giveUp() })
	return nil
}

// BeforeDeadline returns the wait of a request with time left (AGT-5).
func BeforeDeadline(left time.Duration) time.Duration {
	return max(0, left-min(answerMargin, left*2/5))
}

// WhenEnded calls done on the agent's turn, with the summary, once the given ranks have ended. At
// the latest it calls after grace (0: DefaultGrace), or shortly before the caller's deadline.
func (t *Table) WhenEnded(
	ctx *actor.Context, asked []State, grace time.Duration, done func(*actor.Context, StopSummary),
) {
	if grace <= 0 {
		grace = DefaultGrace
	}
	if d, ok := ctx.Deadline(); ok {
		grace = min(grace, BeforeDeadline(time.Until(d)))
	}
	t.WhenEndedWithin(ctx, asked, grace, done)
}

// WhenEndedWithin is WhenEnded without the caller's deadline.
func (t *Table) WhenEndedWithin(
	ctx *actor.Context, asked []State, limit time.Duration, done func(*actor.Context, StopSummary),
) {
	ids := map[string]bool{}
	for _, s := range asked {
		ids[s.ID] = true
	}
	pending := len(ids)
	over := false
	cancel := func() {}
	finish := func(ctx *actor.Context) {
		if !over {
			over = true
			cancel()
			done(ctx, t.SummarizeStop(asked))
		}
	}
	var giveUps []func()
	soon := func() { ctx.After(0, finish) } // waiters are answered in the middle of a change
	for id := range ids {
		giveUps = append(giveUps, t.Wait(UntilEnded(id), func(Overlay) {
			pending--
			if pending == 0 {
				soon()
			}
		}))
	}
	if len(ids) == 0 {
		finish(ctx)
		return
	}
	cancel = ctx.After(limit, func(ctx *actor.Context) {
		finish(ctx)
		for _, giveUp := range giveUps {
			giveUp()
		}
	})
}

// DefaultGrace is the default time for a resource to stop.
const DefaultGrace = 10 * time.Second

// UntilEnded returns the condition that every rank of a resource has ended.
func UntilEnded(id string) WaitRequest { return WaitRequest{ID: id, Until: Stopped} }
