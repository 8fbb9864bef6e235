package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestSpawn_refusesAnUnschedulableMeshAtOnce_MESH3(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	hosts := c.AllHosts(t, c.Net)
	for name, try := range map[string]struct {
		hosts   mesh.HostMesh
		name    string
		perHost shape.Extent
		as      any
		want    string
	}{
		"extents that overlap": {hosts: hosts, name: "w", perHost: shape.Of("host", 2), as: new(*shape.Error),
			want: `"host"`},
		"an empty extent": {hosts: hosts, name: "w", perHost: shape.Of("gpu", 0), as: new(*shape.Error),
			want: "at least 1"},
		"too many procs": {hosts: hosts, name: "w", perHost: shape.Of("gpu", 5000),
			as: new(*mesh.RefusedError), want: "at most 4096"},
		"a name that is no label": {hosts: hosts, name: "my.workers", perHost: shape.Unit(),
			as: new(*subjects.Error), want: `"my.workers"`},
		"hosts out of range": {hosts: hosts.Slice("host", 1, 2), name: "w", perHost: shape.Unit(),
			as: new(*shape.Error), want: "host"},
		"hosts in no other shape": {hosts: hosts.Reshape(shape.Of("rack", 2)), name: "w", perHost: shape.Unit(),
			as: new(*mesh.CardinalityError), want: "want 2 ranks, got 1 hosts"},
		"hosts of nobody's making": {hosts: mesh.HostMesh{}, name: "w", perHost: shape.Unit(),
			as: new(*mesh.RefusedError), want: "the zero host mesh"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := try.hosts.Spawn(t.Context(), try.name, try.perHost)
			require.ErrorAs(t, err, try.as)
			require.ErrorAs(t, err, new(*mesh.RefusedError))
			require.ErrorContains(t, err, try.want)
		})
	}
	all, err := c.Meshes(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestSpawn_failureNamesRanksHostsAndCauses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, counters := c.workers(t, 2, 0)
	for want, spawn := range map[string]func() error{
		`actor type "abacus" is not known`: func() error {
			_, err := mesh.SpawnActors(t.Context(), procs, actor.NewType[*Counter, int64]("abacus"),
				mesh.ActorSpawnSpec[int64]{Label: "c", AllowPartial: true}) // otherwise it is refused
			return err
		},
		"actor type counter: parameters:": func() error {
			_, err := mesh.Spawn(t.Context(), procs, actor.NewType[*Counter, string]("counter"), "c", "one")
			return err
		},
	} {
		var failed *mesh.SpawnError
		require.ErrorAs(t, spawn(), &failed, want)
		require.Len(t, failed.Failed, 2)
		for rank, f := range failed.Failed {
			require.Equal(t, rank, f.Rank)
			require.Equal(t, procs.Describe().Hosts[0].String(), f.Host)
			require.Contains(t, f.Status.Reason, want)
		}
	}
	for what, spawn := range map[string]func() error{
		"ranks out of range": func() error {
			_, err := mesh.Spawn(t.Context(), procs.Slice("gpu", 2, 4), counter, "c", 0)
			return err
		},
		"no such dimension": func() error {
			_, err := mesh.Service(t.Context(), procs.Slice("cpu", 0, 1), counter, "c", 0)
			return err
		},
	} {
		require.ErrorAs(t, spawn(), new(*mesh.RefusedError), what)
		require.ErrorAs(t, spawn(), new(*shape.Error), what)
	}
	_, err := add.Call(t.Context(), counters.Ref(2), 1)
	require.ErrorContains(t, err, `rank "2": want 0 to 1`)
}

func TestSpawn_namesAttachedHostsThatAreGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	brief, err := c.here(t).Allocate(t.Context(), shape.Of("host", 1))
	require.NoError(t, err)
	hosts, err := c.Attach(t.Context(), "both", c.AllHosts(t, c.Net).Hosts()[0], brief.Hosts()[0])
	require.NoError(t, err)
	require.NoError(t, brief.Close(t.Context()))
	_, err = hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	var failed *mesh.SpawnError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 4, failed.Ranks)
	for _, f := range failed.Failed {
		require.Equal(t, brief.Hosts()[0].String(), f.Host)
		require.NotEmpty(t, f.Status.Reason)
	}
	require.Len(t, failed.Failed, 2)
	all, err := c.Meshes(t.Context())
	require.NoError(t, err)
	for _, m := range all {
		require.False(t, m.Alive(), "started ranks were stopped")
	}
}
