package builtin

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDefs_matchTheDocumentation(t *testing.T) {
	registry, err := actor.NewRegistry(Defs()...)
	require.NoError(t, err)
	require.Equal(t, []string{"counter", "echo", "plain"}, registry.Types())
	require.Len(t, registry.Endpoints("counter"), 3)
	require.Len(t, registry.Endpoints("echo"), 1)
	require.Len(t, registry.Endpoints("plain"), 2)
}

func TestCounter_refusesOverflow_BLT2(t *testing.T) {
	number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, math.MaxInt64}))
	rapid.Check(t, func(t *rapid.T) {
		start, delta := number.Draw(t, "start"), number.Draw(t, "delta")
		c, err := newCounter(nil, start)
		require.NoError(t, err)
		want := new(big.Int).Add(big.NewInt(start), big.NewInt(delta))
		got, err := c.add(nil, delta)
		if want.IsInt64() {
			require.NoError(t, err)
			require.Equal(t, want.Int64(), got)
		} else {
			require.Error(t, err)
			require.Equal(t, start, c.n, "the count stays")
		}
		back, err := c.reset(nil, actor.None{})
		require.NoError(t, err)
		require.Equal(t, start, back)
	})
}
