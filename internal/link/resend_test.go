package link

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// requestAgain makes the receiver request the numbers after one, up to another.
func (b *bench) requestAgain(after, upto uint64) {
	b.t.Helper()
	require.NoError(b.t, b.core.OnState(b.now, b.peer,
		&wire.LinkStateBody{Progress: wire.AckState{Acked: after}, Missing: []uint64{after, upto}}))
}

// A slow connection does not take repeated packets faster than its receiver requests them.
func TestResend_packetRequestedTwiceLeavesOnce_LINK4(t *testing.T) {
	b := newBench(t, Config{PacketSize: 1000})
	for range 3 {
		b.post(strings.Repeat("x", 900))
		b.leave()
	}
	for range 100 {
		b.now += Instant(30 * time.Millisecond)
		b.requestAgain(0, 3)
	}
	require.Len(t, b.core.ready, 1, "the ready queue is bounded")
	require.Equal(t, [][2]uint64{{1, 0}, {2, 1}, {3, 2}}, b.links())
	b.requestAgain(0, 3)
	require.Empty(t, b.links(), "it has just left")
	b.now += Instant(30 * time.Millisecond)
	b.requestAgain(0, 3)
	require.Len(t, b.links(), 3, "and may have been lost")
}

// After a cut, packets requested before it still wait to leave. The remaining ones must not be all
// that arrives before the next cut.
func TestResend_oldestGapLeavesFirst_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	for _, m := range []string{"a", "b", "c", "d"} {
		b.post(m)
		b.leave()
	}
	b.requestAgain(0, 4)
	for range 2 {
		_, ok := b.core.Next(b.now)
		require.True(t, ok)
	}
	b.now += Instant(30 * time.Millisecond)
	b.requestAgain(0, 4)
	require.Equal(t, [][2]uint64{{1, 0}, {2, 1}, {3, 2}, {4, 3}}, b.links())
}

func TestResend_skipsPacketsThatArrivedMeanwhile_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	for _, m := range []string{"a", "b", "c"} {
		b.post(m)
		b.leave()
	}
	b.requestAgain(0, 3)
	b.ack(2)
	require.Equal(t, [][2]uint64{{3, 2}}, b.links())
	require.EqualValues(t, 1, b.core.Stats().Retransmitted)
	b.now += Instant(30 * time.Millisecond)
	b.requestAgain(2, 3)
	b.core.OnReceiverReset(b.peer, &wire.ResetBody{Seq: 3})
	require.Empty(t, b.links(), "nor are expired packets")
}

func TestResend_unsentPacketsUseTheNextConnection_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	b.post("a")
	b.leave()
	b.requestAgain(0, 1)
	b.core.OnDisconnect()
	require.Empty(t, b.links())
	b.core.OnReconnect(b.now, testLimit)
	b.requestAgain(0, 1)
	require.Equal(t, [][2]uint64{{1, 0}}, b.links())
}

func TestResend_remainingTimeCountsFromTheResend_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	b.post("a")
	b.leave()
	b.requestAgain(0, 1)
	b.now += Instant(time.Second)
	require.Equal(t, time.Second, b.leave()[0].Age)
}
