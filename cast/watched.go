package cast

import (
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
)

// leastTell is how often a process tells how far a cast is at most.
const leastTell = 50 * time.Millisecond

// watch is somebody who wants to know how far a cast is.
type watch struct {
	every time.Duration
	told  func(settled int)
}

// WatchedMesh is a Mesh whose casts tell how far they are.
type WatchedMesh[A any] struct {
	Mesh[A]
	watch watch
}

// Watched makes the verbs that wait tell how many ranks have answered or failed so far, whenever that is more
// than before, on the goroutine that called the verb. Answers that fold travel together in the end: until then
// each process that folds for several ranks sends word, at most once in every (50 ms at least). To ask a watched
// mesh by batches, throttle it.
//
//	bar := func(n int) { fmt.Printf("\r%d/%d", n, counters.Extent().NumRanks()) }
//	sum, err := cast.Reduce(ctx, cast.Watched(counters, 200*time.Millisecond, bar), add, 1, cast.Sum[int64]())
func Watched[A any](to Mesh[A], every time.Duration, told func(settled int)) WatchedMesh[A] {
	return WatchedMesh[A]{to, watch{max(every, leastTell), told}}
}

// Target is that of the mesh.
func (m WatchedMesh[A]) Target() (Target, error) {
	t, err := m.Mesh.Target()
	t.watch = &m.watch
	return t, err
}

// tells is how often processes say how far they are, in milliseconds, and whether with what they have folded.
func (a *asking) tells() (every int, partly bool) {
	often := a.partly
	if w := a.target.watch; w != nil && (often == 0 || w.every < often) {
		often = w.every
	}
	return int(often.Milliseconds()), a.partly > 0
}

// isWord takes a process's word of how far it is, on a pump.
func (a *asking) isWord(in actor.Incoming) bool {
	var r rest
	if a.target.watch == nil && a.partly == 0 || wire.Unmarshal(in.Envelope.Ext, &r) != nil || len(r.Settled) == 0 {
		return false
	}
	if r.Settled.valid(len(a.fates)) {
		c, err := r.decode(in, len(a.fates))
		a.post(func() {
			if err == nil && a.partly > 0 {
				a.hold(in.From.Proc, c.parts)
			}
			if a.ahead == nil {
				a.ahead = make([]bool, len(a.fates))
			}
			for _, s := range r.Settled {
				for rank := s.First; rank < s.end(); rank++ {
					a.ahead[rank] = true
				}
			}
		})
	}
	return true
}

// tell says how far the cast is.
func (a *asking) tell() {
	w, n := a.target.watch, len(a.fates)-a.open
	if w == nil {
		return
	}
	a.mu.Lock()
	for rank, is := range a.ahead {
		if is && a.fates[rank] == waiting {
			n++
		}
	}
	a.mu.Unlock()
	if n > a.told {
		a.told = n
		w.told(n)
	}
}

// tell sends home how far a fold is, as long as it goes on.
func (fs *folds) tell(f *fold) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed || f.done {
		return
	}
	f.gather()
	if settled := f.st.settled(); settled.count() > f.told {
		f.told = settled.count()
		var pieces []piece
		if f.job.partly {
			pieces = f.st.pieces()
		}
		fs.wg.Go(func() { fs.word(f.job, settled, pieces) })
	}
	f.telling.Reset(f.job.tell)
}
