package wire_test

import (
	"encoding/hex"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // nearly all that the tests decode is garbage at once
	goleak.VerifyTestMain(m)
}

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

// allocated is the heap memory allocated by f, including garbage.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The memory bounds of decoding: for a packet (WIRE-1), and for a body (WIRE-6).
const (
	packetFactor, packetMore = 2, 4 << 10
	bodyFactor, bodyMore     = 64, 1 << 20
)

// requireBounded requires that f, a reader of data, takes memory in proportion to it.
func requireBounded(t testing.TB, data []byte, factor, more uint64, f func()) {
	t.Helper()
	got := uint64(0)
	for range 3 { // the runtime takes some now and then, too
		if got = allocated(f); got <= factor*uint64(len(data))+more {
			return
		}
	}
	t.Fatalf("%d bytes took %d, %.1f times their size: % x…", len(data), got, float64(got)/float64(len(data)),
		data[:min(len(data), 32)])
}
