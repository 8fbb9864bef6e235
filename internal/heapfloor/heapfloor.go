package heapfloor

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// floor is the size at which a small heap is collected, in bytes.
	floor = 16 << 20
	// goPercent is Go's default: a heap is collected once it has grown by its live memory.
	goPercent = 100
	// maxPercent makes Go's own minimum of 4 MiB as large as the floor.
	maxPercent = goPercent * floor / (4 << 20)
	// step is the least change that is worth a stop of the program, in percent.
	step = 25
)

// Start applies the floor to this process, unless its environment chooses otherwise.
func Start(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(maxPercent)
		watch(maxPercent)
	}
}

// mark is unreachable at once, so its cleanup runs after the next collection.
type mark struct{ _ [16]byte }

// watch chooses the limit again after the next collection. percent is the present one.
func watch(percent int) {
	runtime.AddCleanup(&mark{}, func(percent int) {
		if next := choose(live()); differs(next, percent) {
			debug.SetGCPercent(next)
			percent = next
		}
		watch(percent)
	}, percent)
}

// differs reports whether another limit is worth a stop of the program.
func differs(next, percent int) bool {
	if next == goPercent || next == maxPercent {
		return next != percent
	}
	return max(next-percent, percent-next) >= step
}

// choose returns the growth after which a heap is collected, in percent of its live bytes.
func choose(live uint64) int {
	if live == 0 {
		return maxPercent
	}
	return int(max(goPercent, min(maxPercent, floor*goPercent/live)))
}

// live returns the bytes that the last collection has found in use.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
