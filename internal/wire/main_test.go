package wire_test

import (
	"encoding/hex"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// join is the parts in a row.
func join(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// allocated is what f takes from the heap, what it drops at once included: the least of some runs, for
// the runtime takes some now and then, too.
func allocated(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// What decoding may take: for a packet as it comes (WIRE-1), and for a body (WIRE-6).
const (
	packetFactor, packetMore = 2, 4 << 10
	bodyFactor, bodyMore     = 256, 64 << 10
)

// requireBounded says that f, which reads data, takes memory in proportion to it.
func requireBounded(t testing.TB, data []byte, factor, more uint64, f func()) {
	t.Helper()
	if got := allocated(f); got > factor*uint64(len(data))+more {
		t.Fatalf("%d bytes took %d, %.1f times their size: % x…", len(data), got, float64(got)/float64(len(data)), data[:min(len(data), 32)])
	}
}
