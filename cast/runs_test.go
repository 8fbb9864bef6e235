package cast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
)

// A hundred thousand links may all be in different states: each member still reads its own.
func TestHeader_yieldsTheSequenceNumberOfEachOf100kRanks(t *testing.T) {
	const n = 100_000
	prevs := make([]uint64, n)
	for i := range prevs {
		prevs[i] = uint64(1_000_000 + i)
	}
	h := header{Region: shape.Of("rank", n).Region(), Prevs: runsOf(prevs)}
	ext, err := wire.Marshal(h)
	require.NoError(t, err)
	require.Less(t, len(ext), 512<<10, "half of a packet's bound")
	var got header
	require.NoError(t, got.decode(ext))
	for _, view := range []int{0, 1, n / 2, n - 1} {
		prev, err := got.prev(view)
		require.NoError(t, err)
		require.EqualValues(t, 1_000_000+view, prev)
	}
	for name, bad := range map[string]runs{
		"cut off": {4}, "a count of none": {0, 1, 0, 1}, "too short": runsOf(prevs[:3]),
		"an endless number": {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		_, err := (&header{Region: h.Region, Prevs: bad}).prev(3)
		require.ErrorContains(t, err, "no prev for rank 3 of 100000", name)
	}
}
