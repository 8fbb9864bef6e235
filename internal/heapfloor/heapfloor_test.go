package heapfloor

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoose_givesSmallHeapsAFloorAndLargeOnesGosDefault(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 400, 1 << 20: 400, 4 << 20: 400, 8 << 20: 200, 16 << 20: 100, 1 << 30: 100, 1 << 62: 100,
	} {
		require.Equal(t, want, choose(live), live)
	}
}

// goal returns the size at which the heap is collected next.
func goal() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// percent returns the present limit, and changes nothing.
func percent() int {
	now := debug.SetGCPercent(goPercent)
	debug.SetGCPercent(now)
	return now
}

const child = "CASTNET_TEST_HEAPFLOOR"

// run is the process that the tests look at.
func run(t *testing.T) {
	t.Helper()
	Start(os.Getenv)
	require.GreaterOrEqual(t, goal(), uint64(floor))
	large := make([]byte, 8*floor)
	for percent() != goPercent { // the cleanup runs a moment after a collection
		runtime.GC()
	}
	require.Less(t, goal(), uint64(17*floor))
	runtime.KeepAlive(large)
	large = nil
	for percent() != maxPercent {
		runtime.GC()
	}
	require.GreaterOrEqual(t, goal(), uint64(floor))
}

func TestStart_followsTheLiveMemoryOfTheProcess(t *testing.T) {
	if os.Getenv(child) != "" {
		run(t)
		return
	}
	self := exec.Command(os.Args[0], "-test.run", t.Name())
	self.Env = append(os.Environ(), child+"=1", "GOGC=")
	out, err := self.CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestStart_leavesAChosenLimit(t *testing.T) {
	before := percent()
	Start(func(string) string { return "150" })
	require.Equal(t, before, percent())
}
