package mesh_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// asText is a handle as another program decodes it from text.
func asText(t *testing.T, m mesh.ActorMesh[*Counter], conn *mesh.Net) (again mesh.ActorMesh[*Counter]) {
	t.Helper()
	text, err := m.MarshalText()
	require.NoError(t, err)
	require.NoError(t, again.UnmarshalText(text))
	return again.Via(conn)
}

// revived are counters on procs; the owner has restarted some of these.
func (c *cluster) revived(t *testing.T, hosts mesh.HostMesh, ranks ...int) (mesh.ProcMesh,
	mesh.ActorMesh[*Counter]) {
	t.Helper()
	quick := mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond,
		MaxBackoff: 10 * time.Millisecond}
	procs, err := hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", 2),
		RestartPolicy: quick})
	require.NoError(t, err)
	counters, err := mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "counters", RestartPolicy: quick})
	require.NoError(t, err)
	said := steps(t, counters)
	for _, rank := range ranks {
		require.NoError(t, syscall.Kill(c.pids(t, procs)[rank], syscall.SIGKILL))
		require.Contains(t, hear(t, said), "rank.restart.attempt")
		require.Contains(t, hear(t, said), "rank.restart.success")
	}
	return procs, counters
}

func TestResolve_handleFromTextReachesCurrentRanks_MESH11(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	procs, counters := c.revived(t, c.AllHosts(t, c.Net), 1, 3)
	n, err := add.Call(t.Context(), asText(t, counters, c.Connect(t)).Ref(3), 5)
	require.NoError(t, err, "the first call to the rank alone")
	require.EqualValues(t, 5, n)
	sum, err := cast.Reduce(t.Context(), asText(t, counters, c.Connect(t)), add, 1, cast.Sum[int64]())
	require.NoError(t, err, "the first cast")
	require.EqualValues(t, 9, sum)

	var far mesh.ProcMesh
	text, err := procs.MarshalText()
	require.NoError(t, err)
	require.NoError(t, far.UnmarshalText(text))
	more, err := mesh.Spawn(t.Context(), far.Via(c.Connect(t)), counter, "more", 1)
	require.NoError(t, err, "a spawn there reaches the present procs")
	sum, err = cast.Reduce(t.Context(), more, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 8, sum)
}

func TestResolve_restartedProcReachesOtherRestartedProcs_MESH11(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	_, counters := c.revived(t, c.AllHosts(t, c.Net), 0, 1)
	for rank := range 2 { // a cast binds the decoded handle to its actor
		other := counters.Slice("gpu", 1-rank, 2-rank)
		n, err := pass.Call(t.Context(), counters.Ref(rank), passing{other, -1})
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	}
	_, err := cast.Reduce(t.Context(), counters.Via(nil), add, 1, cast.Sum[int64]())
	require.ErrorIs(t, err, actor.ErrInvalid)
	require.ErrorContains(t, err, "bind the mesh with Via")
	for rank := range 2 {
		n, err := pass.Call(t.Context(), counters.Ref(rank), passing{counters, 1 - rank})
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
	}
}

func TestResolve_hostsDescribeAMeshWithoutAnOwner_MESH11(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	owner, reader := c.Connect(t), c.Connect(t)
	procs, counters := c.revived(t, c.AllHosts(t, owner), 1)
	taken, err := procs.Via(c.Net).TakeOver(t.Context(), mesh.Takeover{})
	require.NoError(t, err)
	n, err := add.Call(t.Context(), asText(t, counters, reader).Ref(1), 1)
	require.NoError(t, err, "the former owner names its successor")
	require.EqualValues(t, 1, n)

	require.NoError(t, c.AllHosts(t, c.Net).Err())
	<-owner.Proc().StopActor(procs.Describe().Owner.Name, "it is no more")
	at := asText(t, counters, c.Connect(t)).Ref(1)
	require.NoError(t, at.Err())
	require.EqualValues(t, 1, at.ID().Proc.Gen, "the hosts report it")
	_, err = agent.Ping.Call(t.Context(), agent.Of(at.ID().Proc).Via(c.Proc()), actor.None{})
	require.NoError(t, err)
	require.NoError(t, taken.Stop(context.WithoutCancel(t.Context())))
}

// A host describes its share of a world, and no more: not the whole mesh.
func TestResolve_findsRanksOfAReplacedWorldHost_MESH11(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.System(t, "s")
	c.HostInWorld(t, "a", "train", 0)
	leave := c.HostInWorld(t, "b", "train", 1)
	c.declare(t, "train", shape.Of("x", 2), 1)
	c.running(t, c.Net, "train", 2)
	leave()
	c.HostInWorld(t, "c", "train", 1)
	c.running(t, c.Net, "train", 2)
	late := c.Connect(t)
	procs, err := late.Lookup(t.Context(), "train")
	require.NoError(t, err)
	text, err := procs.MarshalText()
	require.NoError(t, err)
	var far mesh.ProcMesh
	require.NoError(t, far.UnmarshalText(text))
	far = far.Via(c.Connect(t))
	host, err := far.Host(1)
	require.NoError(t, err)
	require.Equal(t, "c", host.Label())
	alive, err := far.Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true, true}, alive.Values())
}
