package supervise_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/supervise"
)

func TestNames_matchTheDocumentation(t *testing.T) {
	for restart, name := range map[supervise.Restart]string{
		supervise.Propagate: "propagate", supervise.Temporary: "temporary",
		supervise.Transient: "transient", supervise.Permanent: "permanent", 4: "restart(4)", 255: "restart(255)",
	} {
		require.Equal(t, name, restart.String())
	}
	for strategy, name := range map[supervise.Strategy]string{
		supervise.OneForOne: "one-for-one", supervise.OneForAll: "one-for-all",
		supervise.RestForOne: "rest-for-one",
	} {
		require.Equal(t, name, strategy.String())
		require.NoError(t, strategy.Check())
	}
	require.EqualError(t, supervise.Strategy(3).Check(),
		"strategy(3): want one of [one-for-one one-for-all rest-for-one]")
}

func TestPolicy_refusesInvalidPoliciesByName(t *testing.T) {
	for _, c := range []struct {
		p    supervise.Policy
		want string
	}{
		{supervise.Policy{Restart: 4}, "restart policy: restart(4): want one of [propagate temporary transient permanent]"},
		{supervise.Policy{MaxRestarts: -1}, "restart policy: at most -1 restarts: want 1 to 1000, or 0 for 3"},
		{supervise.Policy{MaxRestarts: 1001}, "restart policy: at most 1001 restarts: want 1 to 1000, or 0 for 3"},
		{supervise.Policy{Window: -time.Second},
			"restart policy: restarts within -1s: want a time above zero, or 0 for 5s"},
		{
			supervise.Policy{Backoff: supervise.Backoff{First: -1, Max: 1}},
			"restart policy: backoff from -1ns to 1ns: want a first delay of 0 or more, and a maximum no less",
		},
		{
			supervise.Policy{Backoff: supervise.Backoff{First: time.Second}},
			"restart policy: backoff from 1s to 0s: want a first delay of 0 or more, and a maximum no less",
		},
		{
			supervise.Policy{Backoff: supervise.Backoff{Max: time.Second}},
			"restart policy: backoff from 0s to 1s: want a first delay above 0, or no delay",
		},
	} {
		require.EqualError(t, c.p.Check(), c.want)
	}
}

func TestPolicy_acceptsValidPolicies(t *testing.T) {
	for _, p := range []supervise.Policy{
		{},
		{Restart: supervise.Permanent, MaxRestarts: 1000, Window: time.Hour},
		{Restart: supervise.Transient, Backoff: supervise.Backoff{First: time.Second, Max: time.Second}},
		{Restart: supervise.Temporary, Backoff: supervise.Backoff{First: 1, Max: math.MaxInt64}},
	} {
		require.NoError(t, p.Check())
	}
}

// The delay is that of an unbounded float.
func TestBackoff_doublesWithEachRestartInTheWindow_SUP4(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Int64Range(1, math.MaxInt64).Draw(t, "first")
		longest := rapid.Int64Range(first, math.MaxInt64).Draw(t, "max")
		n := rapid.IntRange(0, 1000).Draw(t, "restarts")
		b := supervise.Backoff{First: time.Duration(first), Max: time.Duration(longest)}
		want := min(math.Ldexp(float64(first), n), float64(longest))
		require.InEpsilon(t, want, float64(b.After(n)), 1e-9)
		require.Zero(t, supervise.Backoff{}.After(n))
	})
}
