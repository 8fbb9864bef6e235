package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

func TestLINK13_whoWasHeardOfIsAwayForLonger(t *testing.T) {
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
		require.Empty(t, b.told())
		b.after(time.Millisecond)
		b.core.OnHint(b.now, b.peer, 0)
		require.Len(t, b.told(), 1)
	}
}

func TestLINK4_everyGapIsAskedForAtOnce(t *testing.T) {
	b := newBench(t, Config{})
	b.arrive(Arrival{N: 1})
	b.arrive(Arrival{N: 3, Prev: 2})
	b.arrive(Arrival{N: 4, Prev: 3})
	b.arrive(Arrival{N: 6, Prev: 5})
	require.Equal(t, [][]uint64{{1, 2}, {4, 5}}, missing(b.said(wire.State)))
	b.after(time.Second)
	require.Equal(t, []uint64{1, 2, 4, 5}, missing(b.said(wire.State))[0], "again, together")
	b.core.OnBeat(b.now, b.peer, 9, 0)
	require.Equal(t, [][]uint64{{1, 2, 4, 5, 6, 9}}, missing(b.said(wire.State)), "and what the sender says was the last")
}
