package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func TestSelectLabels_castsReachRanksOnHostsWithTheLabels(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leave := map[string]func(){}
	for label, zone := range map[string]string{"a": "x", "b": "y", "c": "y"} {
		_, leave[label] = c.Host(t, label, func(o *host.Options) { o.Labels = map[string]string{"zone": zone, "disk": "ssd"} })
	}
	hosts, err := c.AwaitHosts(t.Context(), 3)
	require.NoError(t, err)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", int64(0))
	require.NoError(t, err)
	for _, tc := range []struct {
		procs  mesh.ProcMesh
		labels map[string]string
		want   string
	}{
		{procs, nil, "*"},
		{procs, map[string]string{"zone": "y", "disk": "ssd"}, "host=1:3,gpu=*"},
		{procs.Slice("host", 0, 2), map[string]string{"zone": "y"}, "host=1,gpu=*"},
		{procs, map[string]string{"zone": ""}, "none"},
		{procs, map[string]string{"rack": ""}, "none"},
	} {
		s, err := tc.procs.SelectLabels(t.Context(), tc.labels)
		require.NoError(t, err)
		require.Equal(t, tc.want, s.String())
	}
	s, err := procs.SelectLabels(t.Context(), map[string]string{"zone": "y"})
	require.NoError(t, err)
	one, err := cast.Reduce(t.Context(), cast.First(cast.Select(counters, s), "gpu"), add, int64(1), cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 2, one, "the first rank on each of two hosts")
	leave["c"]()
	s, err = procs.SelectLabels(t.Context(), map[string]string{"zone": "y"})
	require.NoError(t, err, "a host that is gone has no ranks")
	require.Equal(t, "host=1,gpu=*", s.String())
	require.NoError(t, hosts.CheckDrain(t.Context()), "nor does a drain end ranks there")
}
