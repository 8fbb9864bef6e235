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

// ProgressMesh is a Mesh whose casts report progress.
type ProgressMesh[A any] struct {
	Mesh[A]
	watch progressCallback
}

// WithProgress makes the waiting verbs call told with the number of settled ranks, whenever it has
// grown, on the goroutine of the verb. Folded answers arrive together at the end. Until then each
// process that folds for several ranks reports its progress, at most once in every (50 ms at
// least). For batches, throttle the result.
//
//	bar := func(n int) { fmt.Printf("\r%d/%d", n, counters.Extent().NumRanks()) }
//	sum, err := cast.Reduce(ctx, cast.WithProgress(counters, 200*time.Millisecond, bar), add, 1, cast.Sum[int64]())
func WithProgress[A any](to Mesh[A], every time.Duration, told func(settled int)) ProgressMesh[A] {
	return ProgressMesh[A]{to, progressCallback{max(every, minProgressInterval), told}}
}

// Target is that of the mesh.
func (m ProgressMesh[A]) Target() (Target, error) {
	t, err := m.Mesh.Target()
	t.progress = &m.watch
	return t, err
}

// progressInterval is the period of progress reports, in milliseconds, and whether they include the
// partial fold.
func (a *operation) progressInterval() (every int, partly bool) {
	often := a.partialEvery
	if w := a.target.progress; w != nil && (often == 0 || w.every < often) {
		often = w.every
	}
	return int(often.Milliseconds()), a.partialEvery > 0
}

// isProgress takes a process's word of how far it is, on a pump.
func (a *operation) isProgress(in actor.Incoming) bool {
	var r replyHeader
	if a.target.progress == nil && a.partialEvery == 0 || wire.Unmarshal(in.Envelope.Ext, &r) != nil || len(r.Settled) == 0 {
		return false
	}
	if r.Settled.valid(len(a.fates)) {
		c, err := r.decode(in, len(a.fates))
		a.enqueue(func() {
			if err == nil && a.partialEvery > 0 {
				a.recordProgress(in.From.Proc, c.parts)
			}
			if a.announced == nil {
				a.announced = make([]bool, len(a.fates))
			}
			for _, s := range r.Settled {
				for rank := s.First; rank < s.end(); rank++ {
					a.announced[rank] = true
				}
			}
		})
	}
	return true
}

// reportProgress calls the listener with the progress of the cast.
func (a *operation) reportProgress() {
	w := a.target.progress
	n := len(a.fates) - a.pending
	if w == nil {
		return
	}
	a.mu.Lock()
	for rank, is := range a.announced {
		if is && a.fates[rank] == waiting {
			n++
		}
	}
	a.mu.Unlock()
	if n > a.lastReported {
		a.lastReported = n
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
	if settled := f.state.settledRanks(); settled.count() > f.lastReported {
		f.lastReported = settled.count()
		var pieces []piece
		if f.job.partialValues {
			pieces = f.state.pieces()
		}
		fs.wg.Go(func() { fs.sendProgress(f.job, settled, pieces) })
	}
	f.progressTimer.Reset(f.job.progressEvery)
}
