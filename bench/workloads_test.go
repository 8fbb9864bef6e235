package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/local"
)

func TestPerform_onlySpawnWorkloadsUseAFreshProcess_BENCH8(t *testing.T) {
	for name, want := range map[string]int{"local-ask-p50": 1, "spawn-time": 3, "spawn-bytes": 3} {
		w, ok := local.Find(name)
		require.True(t, ok)
		started := 0
		g := &ground{settings: settings{shrink: 1000}}
		do, err := workloadSide(g, w, func() (*child, error) {
			started++
			return startRole(floorRole)
		})
		require.NoError(t, err)
		for range 3 {
			values, err := do(t.Context())
			require.NoError(t, err)
			require.Len(t, values, 1)
			require.Positive(t, values[0])
		}
		require.NoError(t, g.close())
		require.Equal(t, want, started, name)
	}
	requireNoStrays(t)
}

func TestPerform_reportsTheChildsError(t *testing.T) {
	c, err := startRole(floorRole)
	require.NoError(t, err)
	_, err = c.perform(t.Context(), "nothing", 5)
	require.EqualError(t, err, `request "nothing 5": there is no workload "nothing"`)
	require.NoError(t, endChildren(c))
	_, err = c.perform(t.Context(), "nothing", 5)
	require.ErrorContains(t, err, "ask floor: ")
}
