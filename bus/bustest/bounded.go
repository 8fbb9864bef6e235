package bustest

import (
	"runtime"
	"testing"
)

// What reading takes at most: so many bytes for each, and as many besides.
const (
	boundFactor = 64
	boundMore   = 1 << 20
)

// Bounded fails the test when read, which reads data that came over the bus, takes more memory than data of that
// size may cost (WIRE-6).
func Bounded(t testing.TB, data []byte, read func()) {
	t.Helper()
	got, most := uint64(0), uint64(boundFactor*len(data)+boundMore)
	for range 3 { // what else runs takes some now and then, too
		if got = allocated(read); got <= most {
			return
		}
	}
	t.Fatalf("reading %d bytes took %d, at most %d may be taken: %q…", len(data), got, most, data[:min(len(data), 64)])
}

// allocated is what f takes from the heap, what it drops at once included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
