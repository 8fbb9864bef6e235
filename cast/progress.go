package cast

import (
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
)

// minProgressInterval is the shortest period of a process's progress reports.
const minProgressInterval = 50 * time.Millisecond

// progressCallback is a listener for the progress of a cast.
type progressCallback struct {
	every  time.Duration
	notify func(settled int)
}

// WithProgress makes the waiting verbs call onSettled with the number of settled ranks, whenever it
// has grown, on the goroutine of the verb. Folded answers arrive together at the end. Until then
// each process that folds for several ranks reports its progress, at most once per interval (50 ms
// at least).
//
//	bar := func(n int) { fmt.Printf("\r%d/%d", n, counters.Extent().NumRanks()) }
//	watched := cast.WithProgress(counters, 200*time.Millisecond, bar)
//	sum, err := cast.Reduce(ctx, watched, add, 1, cast.Sum[int64]())
func WithProgress[A any](to Mesh[A], interval time.Duration, onSettled func(settled int)) Mesh[A] {
	watch := &progressCallback{max(interval, minProgressInterval), onSettled}
	return meshWith[A]{to, func(t *Target) error {
		t.progress = watch
		return nil
	}}
}

// progressInterval is the period of progress reports, in milliseconds, and whether they include the
// partial fold.
func (a *operation) progressInterval() (every int, partly bool) {
	often := a.request.partialEvery
	if w := a.target.progress; w != nil && (often == 0 || w.every < often) {
		often = w.every
	}
	return int(often.Milliseconds()), a.request.partialEvery > 0
}

// isProgress takes a process's word of how far it is, on a pump.
func (a *operation) isProgress(in actor.Incoming) bool {
	var r replyHeader
	if a.target.progress == nil && a.request.partialEvery == 0 || wire.Unmarshal(in.Envelope.Ext, &r) != nil ||
		r.Settled.IsEmpty() {
		return false
	}
	if r.Settled.End() <= len(a.fates) {
		c, err := r.decode(in, len(a.fates))
		a.enqueue(func() {
			if err == nil && a.request.partialEvery > 0 {
				a.recordProgress(in.From.Proc, c.parts)
			}
			if a.announced == nil {
				a.announced = make([]bool, len(a.fates))
			}
			for rank := range r.Settled.All() {
				a.announced[rank] = true
			}
		})
	}
	return true
}

// reportProgress calls the listener with the progress of the cast.
func (a *operation) reportProgress() {
	w := a.target.progress
	if w == nil {
		return
	}
	n := a.settled
	a.mu.Lock()
	for rank, is := range a.announced {
		if is && a.fates[rank] == waiting {
			n++
		}
	}
	a.mu.Unlock()
	if n > a.reported {
		a.reported = n
		w.notify(n)
	}
}

// scheduleProgress sends home how far a fold is, as long as it goes on.
func (fs *aggregations) scheduleProgress(f *aggregation) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed || f.done {
		return
	}
	f.drainLocal()
	if settled := f.state.ranksWith(answered, failed, missing); settled.Len() > f.lastReported {
		f.lastReported = settled.Len()
		var pieces []piece
		if f.job.partialValues {
			pieces = f.state.pieces()
		}
		fs.wg.Go(func() { fs.sendProgress(f.job, settled, pieces) })
	}
	f.progressTimer.Reset(f.job.progressEvery)
}
