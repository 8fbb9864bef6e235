package local

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// starting closes done when the last of as many actors has run its first code.
type starting struct {
	left atomic.Int64
	done chan struct{}
}

func newStarting(n int) *starting {
	s := &starting{done: make(chan struct{})}
	s.left.Store(int64(n))
	return s
}

func (s *starting) Started() {
	if s.left.Add(-1) == 0 {
		close(s.done)
	}
}

func (*starting) Receive(Context, any) any { return nil }

// spawnTime is nanoseconds per actor until every one has started.
func spawnTime(st *stage) (float64, error) {
	b, refs := newStarting(st.n), make([]Ref, st.n)
	took, err := st.timed(b.done, func() { spawnAll(st, b, refs) })
	runtime.KeepAlive(refs)
	return float64(took) / float64(st.n), err
}

// spawnBytes is bytes of heap and stack per actor that has nothing to do.
func spawnBytes(st *stage) (float64, error) {
	b, refs := newStarting(st.n), make([]Ref, st.n)
	before := footprint()
	spawnAll(st, b, refs)
	if err := st.await(b.done); err != nil {
		return 0, err
	}
	after := footprint()
	runtime.KeepAlive(refs)
	return (after - before) / float64(st.n), nil
}

// spawnRSS is mebibytes of resident memory that the actors add to the process while they have nothing
// to do.
func spawnRSS(st *stage) (float64, error) {
	b, refs := newStarting(st.n), make([]Ref, st.n)
	before, err := resident()
	if err != nil {
		return 0, err
	}
	spawnAll(st, b, refs)
	if err := st.await(b.done); err != nil {
		return 0, err
	}
	after, err := resident()
	runtime.KeepAlive(refs)
	return max(after-before, 0) / (1 << 20), err
}

// resident is the resident memory of the process in bytes, after unused memory went back to the
// system.
func resident() (float64, error) {
	footprint()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("resident memory needs a /proc: %w", err)
	}
	var size, pages int
	if _, err := fmt.Fscan(bytes.NewReader(text), &size, &pages); err != nil {
		return 0, fmt.Errorf("/proc/self/statm is %q, want numbers of pages: %w", text, err)
	}
	return float64(pages * os.Getpagesize()), nil
}

func spawnAll(st *stage, b Behavior, refs []Ref) {
	for i := range refs {
		refs[i] = st.Spawn(b)
	}
}

// footprint is what the process uses once collections do not find less: goroutines that were on
// their way to the end at the first are gone by a later one.
func footprint() float64 {
	least := math.Inf(1)
	for {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := float64(m.HeapAlloc + m.StackInuse)
		if now > least*0.999 {
			return min(now, least)
		}
		least = now
	}
}
