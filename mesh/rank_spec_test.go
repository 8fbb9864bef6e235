package mesh_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// lookAll spawns an actor in every proc and returns what each finds.
func lookAll(t *testing.T, procs mesh.ProcMesh, variables ...string) (all []surroundings) {
	t.Helper()
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", int64(0))
	require.NoError(t, err)
	for rank := range procs.Extent().NumRanks() {
		s, err := look.Call(t.Context(), counters.Ref(rank), variables)
		require.NoError(t, err)
		all = append(all, s)
	}
	return all
}

// place is a directory by its real name.
func place(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func TestSpawnProcs_ranksHaveCommandsOfTheirOwn_MESH3(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	dir, self := place(t), ownCommand(t).Path
	here, err := os.Getwd()
	require.NoError(t, err)
	for name, ranks := range map[string][]mesh.RankSpec{
		"for each proc of a host": {
			{}, {Command: mesh.Command{Arg0: "second", Dir: dir, Env: []string{"OWN=1", "ALL=mine"}}},
		},
		"for each rank": {
			{}, {Command: mesh.Command{Arg0: "second", Dir: dir, Env: []string{"OWN=1", "ALL=mine"}}},
			{}, {Command: mesh.Command{Path: self, Arg0: "second", Dir: dir, Env: []string{"OWN=1", "ALL=mine"}}},
		},
	} {
		procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(), mesh.SpawnSpec{
			Name: "workers", PerHost: shape.Of("gpu", 2), Ranks: ranks,
			Command: mesh.Command{Env: []string{"ALL=all"}},
		})
		require.NoError(t, err, name)
		for rank, s := range lookAll(t, procs, "OWN", "ALL") {
			want := surroundings{Arg0: self, Dir: here, CPUs: s.CPUs, Env: []string{"", "all"}}
			if rank%2 == 1 {
				want = surroundings{Arg0: "second", Dir: dir, CPUs: s.CPUs, Env: []string{"1", "mine"}}
			}
			require.Equal(t, want, s, "%s: rank %d", name, rank)
		}
	}
	for want, ranks := range map[string][]mesh.RankSpec{
		"3 specs of ranks: want 2, 4, or none": make([]mesh.RankSpec, 3),
		"rank 1: command \"worker\"":           {{}, {Command: mesh.Command{Path: "worker"}}},
		"rank 3: environment entry 1: LD_PRELOAD": {
			{}, {}, {}, {Command: mesh.Command{Env: []string{"LD_PRELOAD=x"}}},
		},
	} {
		_, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(), mesh.SpawnSpec{
			Name: "odd", PerHost: shape.Of("gpu", 2), Ranks: ranks,
		})
		require.ErrorContains(t, err, want)
	}
}

func TestSpawnProcs_ranksRunOnTheirCPUs_MESH3(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	spawn := func(own mesh.RankSpec) (mesh.ProcMesh, error) {
		return c.AllHosts(t, c.Net).SpawnProcs(t.Context(), mesh.SpawnSpec{
			Name: "workers", PerHost: shape.Of("gpu", 2), Ranks: []mesh.RankSpec{{}, own},
		})
	}
	if runtime.GOOS != "linux" {
		_, err := spawn(mesh.RankSpec{CPUs: []int{0}})
		require.ErrorContains(t, err, "only Linux")
		return
	}
	usable := 0
	procs, err := spawn(mesh.RankSpec{CPUs: []int{usable}})
	for ; err != nil && usable < 1023; usable++ { // a container may have any CPUs
		procs, err = spawn(mesh.RankSpec{CPUs: []int{usable + 1}})
	}
	require.NoError(t, err)
	all := lookAll(t, procs)
	require.Equal(t, []int{runtime.NumCPU(), 1}, []int{all[0].CPUs, all[1].CPUs})
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	require.Empty(t, states.Values()[1].Proc.Unenforced)
	_, err = spawn(mesh.RankSpec{CPUs: []int{1023}})
	require.ErrorContains(t, err, "rank 1: CPU 1023: want one of the")
	_, err = spawn(mesh.RankSpec{NUMANodes: []int{1023}})
	require.ErrorContains(t, err, "rank 1: NUMA node 1023")
	here, err := c.Allocate(t.Context(), c.here(t), "here", shape.Of("host", 1))
	require.NoError(t, err)
	_, err = here.SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Unit(), Ranks: []mesh.RankSpec{{CPUs: []int{usable}}},
	})
	require.ErrorContains(t, err, "procs of this host share its process")
}

func TestProcessHosts_procsRunTheCommandOfTheirHost_MESH8(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.options(t)
	o.Command = ownCommand(t, "FROM=host", "ALL=host")
	o.Command.Arg0 = "worker"
	hosts, err := c.Allocate(t.Context(), host.ProcessHosts(o), "hosts", shape.Of("host", 1))
	require.NoError(t, err)
	procs, err := hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Unit(), Command: mesh.Command{Env: []string{"ALL=mesh"}},
	})
	require.NoError(t, err)
	s := lookAll(t, procs, "FROM", "ALL")[0]
	require.Equal(t, "worker", s.Arg0)
	require.Equal(t, []string{"host", "mesh"}, s.Env)
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, o.Command.Path, states.Values()[0].Proc.Program)
}

func TestSpawn_actorTypeUnknownToTheProcsIsRefusedBeforeAnythingIsSent_MESH3(t *testing.T) {
	t.Parallel()
	odd := actor.NewType[*Counter, int64]("odd")
	for flavour, hosts := range map[string]func(t *testing.T, c *cluster) mesh.HostMesh{
		"procs": func(t *testing.T, c *cluster) mesh.HostMesh { return c.AllHosts(t, c.Net) },
		"procs in the host's process": func(t *testing.T, c *cluster) mesh.HostMesh {
			h, err := c.Allocate(t.Context(), c.here(t), "here", shape.Of("host", 1))
			require.NoError(t, err)
			return h
		},
	} {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "a")
			procs, err := hosts(t, c).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
			require.NoError(t, err)
			for _, spawn := range []func() error{
				func() error { _, err := mesh.Spawn(t.Context(), procs, odd, "odds", 1); return err },
				func() error { _, err := mesh.Service(t.Context(), procs, odd, "odds", 1); return err },
			} {
				err := spawn()
				require.ErrorAs(t, err, new(*mesh.RefusedError))
				require.ErrorContains(t, err, `actor type "odd" is not known to the procs of `+procs.ID().String())
			}
			all, err := procs.Actors(t.Context())
			require.NoError(t, err)
			for _, actors := range all.Values() {
				for _, a := range actors {
					require.NotEqual(t, agent.Failed, a.Status.Phase, "no record of a failure")
				}
			}
		})
	}
}
