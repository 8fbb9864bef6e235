package link

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// asks has the receiver say that it misses what is after one number, up to another.
func (b *bench) asks(after, upto uint64) {
	b.t.Helper()
	require.NoError(b.t, b.core.OnState(b.now, b.peer,
		&wire.LinkStateBody{Progress: wire.AckState{Acked: after}, Missing: []uint64{after, upto}}))
}

// A connection that is slow does not take what is sent again faster than its receiver asks.
func TestResend_packetRequestedTwiceLeavesOnce_LINK4(t *testing.T) {
	b := newBench(t, Config{PacketSize: 1000})
	for range 3 {
		b.post(strings.Repeat("x", 900))
		b.leave()
	}
	for range 100 {
		b.now += Instant(30 * time.Millisecond)
		b.asks(0, 3)
	}
	require.Len(t, b.core.ready, 1, "what waits to leave is bounded")
	require.Equal(t, [][2]uint64{{1, 0}, {2, 1}, {3, 2}}, b.links())
	b.asks(0, 3)
	require.Empty(t, b.links(), "it has just left")
	b.now += Instant(30 * time.Millisecond)
	b.asks(0, 3)
	require.Len(t, b.links(), 3, "and may have been lost")
}

// After a cut what was asked for before it is still about to leave: the rest of it must not be all
// that arrives before the next cut.
func TestResend_oldestGapLeavesFirst_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	for _, m := range []string{"a", "b", "c", "d"} {
		b.post(m)
		b.leave()
	}
	b.asks(0, 4)
	for range 2 {
		_, ok := b.core.Next(b.now)
		require.True(t, ok)
	}
	b.now += Instant(30 * time.Millisecond)
	b.asks(0, 4)
	require.Equal(t, [][2]uint64{{1, 0}, {2, 1}, {3, 2}, {4, 3}}, b.links())
}

func TestResend_skipsPacketsThatArrivedMeanwhile_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	for _, m := range []string{"a", "b", "c"} {
		b.post(m)
		b.leave()
	}
	b.asks(0, 3)
	b.acked(2)
	require.Equal(t, [][2]uint64{{3, 2}}, b.links())
	require.EqualValues(t, 1, b.core.Stats().Retransmitted)
	b.now += Instant(30 * time.Millisecond)
	b.asks(2, 3)
	b.core.OnReceiverReset(b.peer, &wire.ResetBody{Seq: 3})
	require.Empty(t, b.links(), "nor is what was given up")
}

func TestResend_unsentPacketsUseTheNextConnection_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	b.post("a")
	b.leave()
	b.asks(0, 1)
	b.core.OnDisconnect()
	require.Empty(t, b.links())
	b.core.OnReconnect(b.now, testLimit)
	b.asks(0, 1)
	require.Equal(t, [][2]uint64{{1, 0}}, b.links())
}

func TestResend_remainingTimeCountsFromTheResend_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	b.post("a")
	b.leave()
	b.asks(0, 1)
	b.now += Instant(time.Second)
	require.Equal(t, time.Second, b.leave()[0].Age)
}
