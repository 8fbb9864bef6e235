package host

import (
	"cmp"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// endBatchDelay is the wait of a requested end for other ends. A mesh on a busy machine takes this
// long to stop.
const endBatchDelay = time.Second

// endBatch reports requested ends together with those that follow soon. A stopped mesh thus causes
// one event per host instead of one per proc. All go out before the reply to the stop.
type endBatch struct{ waiting []actor.Event }

// add adds an end; last says that no other end of its mesh follows.
func (b *endBatch) add(ctx *actor.Context, e actor.Event, last bool) {
	e.StderrTail = nil
	b.waiting = append(b.waiting, e)
	if last {
		b.flush(ctx)
	} else if len(b.waiting) == 1 {
		ctx.After(endBatchDelay, b.flush)
	}
}

// flush publishes the waiting ends. Equal ends of adjacent ranks share an event.
func (b *endBatch) flush(ctx *actor.Context) {
	slices.SortStableFunc(b.waiting, func(x, y actor.Event) int {
		if x.Mesh != y.Mesh {
			return cmp.Compare(x.Mesh, y.Mesh)
		}
		return cmp.Compare(x.Rank, y.Rank)
	})
	runs := agent.JoinRuns(b.waiting)
	b.waiting = nil
	for _, e := range runs {
		ctx.Proc().Emit(e)
	}
}
