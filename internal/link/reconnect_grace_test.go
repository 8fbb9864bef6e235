package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

func TestPeer_knownPeerGetsALongerGrace_LINK13(t *testing.T) {
	for heard, want := range map[bool]time.Duration{false: 500 * time.Millisecond, true: 5 * time.Second} {
		b := newBench(t, Config{})
		if heard {
			require.NoError(t, b.core.OnHead(b.now, b.peer, nil))
		}
		b.post("sent")
		b.leave()
		b.core.OnHint(b.now, b.peer, 1)
		b.after(want - time.Millisecond)
		b.core.OnHint(b.now, b.peer, 0)
		require.Empty(t, b.fates())
		b.after(time.Millisecond)
		b.core.OnHint(b.now, b.peer, 0)
		require.Len(t, b.fates(), 1)
	}
}

func TestResend_requestsEachGapAtOnce_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	b.arrive(Arrival{Seq: 1})
	b.arrive(Arrival{Seq: 3, PrevSeq: 2})
	b.arrive(Arrival{Seq: 4, PrevSeq: 3})
	b.arrive(Arrival{Seq: 6, PrevSeq: 5})
	require.Equal(t, [][]uint64{{1, 2}, {4, 5}}, missing(b.controls(wire.LinkState)))
	b.after(time.Second)
	require.Equal(t, []uint64{1, 2, 4, 5}, missing(b.controls(wire.LinkState))[0], "again, together")
	b.core.OnProbe(b.now, b.peer, 9, 0)
	require.Equal(t, [][]uint64{{1, 2, 4, 5, 6, 9}}, missing(b.controls(wire.LinkState)),
		"and the sender's last number")
}
