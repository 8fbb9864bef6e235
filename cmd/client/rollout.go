package main

import (
	"context"
	"time"

	"github.com/castnet-io/castnet/cast"
)

// rollout follows the answers of a cast that may go batch by batch: all of a batch come before the next
// one is sent. A stream does not say which ranks were not asked in the end; as the rules of a throttle are
// known (cast.Throttle), it is known here.
type rollout struct {
	throttle cast.Throttle
	batches  [][]int // those that are not done
	open     int     // ranks of the first of them that have not answered
	done     int     // batches
	failures int
	begun    time.Time // when the batch was sent
	stopped  bool
}

func newRollout(t cast.Throttle, batches [][]int) *rollout {
	r := &rollout{throttle: t, batches: batches}
	r.next(0)
	return r
}

// next goes on to the batch that is sent so much later.
func (r *rollout) next(later time.Duration) {
	if r.stopped = r.stopped || len(r.batches) == 0; !r.stopped {
		r.open, r.batches = len(r.batches[0]), r.batches[1:]
		r.begun = time.Now().Add(later)
	}
}

// take says of one answer, or the reason why there is none, how long it took, and whether the rank was not
// asked at all.
func (r *rollout) take(ctx context.Context, err error) (ms float64, skipped bool) {
	if r.stopped {
		return 0, true
	}
	ms = since(r.begun)
	if err != nil {
		r.failures++
	}
	if r.open--; r.open == 0 {
		r.done++
		r.stopped = ctx.Err() != nil || r.enough()
		r.next(r.throttle.Pause)
	}
	return ms, false
}

// enough reports whether the throttle stops the cast after the batches that are done.
func (r *rollout) enough() bool {
	canary := r.throttle.Canary && r.done == 1 && r.failures > 0
	return canary || r.throttle.StopAfter > 0 && r.failures >= r.throttle.StopAfter
}
