package agent

import (
	"time"

	"github.com/castnet-io/castnet/actor"
)

// margin is how long before the asker's deadline a wait answers with what there is (AGT-5). It is
// longer than the one folders of casts have, so that they still get the answer.
const margin = 500 * time.Millisecond

// AnswerWhen answers the message an agent is handling once every rank of a resource has reached a
// phase or is terminal, at the latest shortly before the asker's deadline. shift is added to the
// ranks of the answer. The handler's own return is ignored.
func (t *Table) AnswerWhen(ctx *actor.Context, id string, until Phase, shift int) {
	answer := actor.Defer[Overlay](ctx)
	answered := false
	giveUp := t.Wait(id, until, func(o Overlay) {
		answered = true
		answer.Reply(o.Shift(shift), nil)
	})
	if answered {
		return
	}
	left := actor.DefaultDeadline // of one who names none: nobody is waited for without end
	if d, ok := ctx.Deadline(); ok {
		left = time.Until(d)
	}
	ctx.After(left-min(margin, left*2/5), func(*actor.Context) { giveUp() })
}
