package bustest

import (
	"runtime"
	"testing"
)

// Memory limit of reading: bytes per byte of input, plus a constant.
const (
	boundFactor = 64
	boundBase   = 1 << 20
)

// CheckAllocBound fails the test if read, a decoder of data from the bus, takes more memory than
// allowed for its size (WIRE-6).
func CheckAllocBound(t testing.TB, data []byte, read func()) {
	t.Helper()
	var got uint64
	most := uint64(boundFactor*len(data) + boundBase)
	for range 3 { // other goroutines allocate now and then, too
		got = allocatedBytes(read)
		if got <= most {
			return
		}
	}
	t.Fatalf("reading %d bytes took %d, at most %d may be taken: %q…", len(data), got, most,
		data[:min(len(data), 64)])
}

// allocatedBytes returns the heap memory that f allocates, including memory it drops at once.
func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
