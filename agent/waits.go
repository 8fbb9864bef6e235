package agent

import (
	"time"

	"github.com/castnet-io/castnet/actor"
)

// margin is how long before the asker's deadline a wait answers with what there is (AGT-5). It is
// longer than the one folders of casts have, so that they still get the answer.
const margin = 500 * time.Millisecond

// AnswerWhen answers the message an agent is handling once a condition on the ranks of a resource holds,
// at the latest shortly before the asker's deadline. shift is added to the ranks of the answer. The
// handler's own return is ignored, unless there is an error: a condition that can never hold.
func (t *Table) AnswerWhen(ctx *actor.Context, until Waiting, shift int) error {
	if err := until.check(); err != nil {
		return err
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
	left := actor.DefaultDeadline // of one who names none: nobody is waited for without end
	if d, ok := ctx.Deadline(); ok {
		left = time.Until(d)
	}
	cancel = ctx.After(early(left), func(*actor.Context) { giveUp() })
	return nil
}

// early is when to answer one who waits for so long.
func early(left time.Duration) time.Duration { return max(0, left-min(margin, left*2/5)) }

// AnswerAll calls done, on the agent's turn, once all of some ranks have ended, and at the latest after
// grace (0: DefaultGrace), or shortly before the asker's deadline.
func (t *Table) AnswerAll(ctx *actor.Context, asked []State, grace time.Duration, done func(*actor.Context)) {
	if grace <= 0 {
		grace = DefaultGrace
	}
	if d, ok := ctx.Deadline(); ok {
		grace = min(grace, early(time.Until(d)))
	}
	ids := map[string]bool{}
	for _, s := range asked {
		ids[s.ID] = true
	}
	pending, over, cancel := len(ids), false, func() {}
	finish := func(ctx *actor.Context) {
		if !over {
			over = true
			cancel()
			done(ctx)
		}
	}
	var giveUps []func()
	soon := func() { ctx.After(0, finish) } // a waiter is answered in the middle of a change
	for id := range ids {
		giveUps = append(giveUps, t.Wait(Ended(id), func(Overlay) {
			if pending--; pending == 0 {
				soon()
			}
		}))
	}
	if len(ids) == 0 {
		finish(ctx)
		return
	}
	cancel = ctx.After(grace, func(ctx *actor.Context) {
		finish(ctx)
		for _, giveUp := range giveUps {
			giveUp()
		}
	})
}

// DefaultGrace is what a resource has to stop in when nobody says.
const DefaultGrace = 10 * time.Second

// Subscribe adds a subscriber to an agent's streams: told of what there is now, or, when it asks about
// one thing that is not there, that it does not exist and nothing more (AGT-9).
func Subscribe(ctx *actor.Context, to *Streams, s Stream, now []actor.Event) error {
	if s.ID != "" && len(now) == 0 && !s.End {
		if !s.To.ID().IsValid() {
			return to.Add(ctx, s, 0, nil) // says what is wrong with it
		}
		return s.To.Send(ctx, actor.Event{Status: NotExist.String(), Actor: s.ID, At: time.Now()})
	}
	return to.Add(ctx, s, ctx.Point().Rank(), now)
}

// Ended is the condition that every rank of a resource has ended.
func Ended(id string) Waiting { return Waiting{ID: id, Until: Stopped} }
