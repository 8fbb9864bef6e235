package agent

import (
	"time"

	"github.com/castnet-io/castnet/actor"
)

// margin is how long before the asker's deadline a wait answers with what there is (AGT-5).
const margin = 200 * time.Millisecond

// AnswerWhen answers the message an agent is handling once every rank of a resource has reached a
// phase or is terminal, at the latest shortly before the asker's deadline. The handler's own return
// is ignored.
func (t *Table) AnswerWhen(ctx *actor.Context, id string, until Phase) {
	answer := actor.Defer[Overlay](ctx)
	giveUp := t.Wait(id, until, func(o Overlay) { answer.Reply(o, nil) })
	if d, ok := ctx.Deadline(); ok {
		left := time.Until(d)
		ctx.After(left-min(margin, left/5), func(*actor.Context) { giveUp() })
	}
}
