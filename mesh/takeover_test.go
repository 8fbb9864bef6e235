package mesh_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func TestTakeOver_formerOwnerStopsActing_MESH14(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	quick := mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond}
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", 2), Lease: 6 * time.Second, RestartPolicy: quick,
			Command: mesh.Command{Env: []string{"DATA=/data"}}})
	require.NoError(t, err)
	counters, err := mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "counters", RestartPolicy: quick})
	require.NoError(t, err)
	said := steps(t, procs)
	require.NoError(t, syscall.Kill(c.pids(t, procs)[2], syscall.SIGKILL))
	require.Equal(t, "2 initializing rank.restart.attempt <nil>", hear(t, said))
	require.Equal(t, "2 running rank.restart.success <nil>", hear(t, said))
	pids := c.pids(t, procs)

	other := &cluster{c.As(c.Connect(t))}
	text, err := procs.MarshalText()
	require.NoError(t, err)
	var mine mesh.ProcMesh
	require.NoError(t, mine.UnmarshalText(text))
	mine, err = mine.Via(other.Net).TakeOver(t.Context(),
		mesh.Takeover{Epoch: 1, RestartPolicy: quick, Lease: -1})
	require.NoError(t, err)
	require.Contains(t, hear(t, said), "controller.fenced controller "+procs.Describe().Owner.String()+
		" has lost its mesh: ")
	require.Equal(t, procs.Describe().Command, mine.Describe().Command)
	require.NotNil(t, agent.AsFenced(procs.Stop(t.Context())))
	_, err = procs.TakeOver(t.Context(), mesh.Takeover{Epoch: 1})
	f := agent.AsFenced(err)
	require.NotNil(t, f, "it was taken over before: %v", err)
	require.Equal(t, agent.Claim{Epoch: 2, Owner: mine.Describe().Owner}, f.Current)
	require.Equal(t, pids, other.pids(t, mine), "nothing was started or stopped")

	require.NoError(t, c.Close(context.Background()), "the former owner goes, and its mesh does not")
	time.Sleep(7 * time.Second) // longer than the lease that it had
	require.Equal(t, pids, other.pids(t, mine))
	changes := steps(t, mine)
	require.NoError(t, syscall.Kill(pids[1], syscall.SIGKILL))
	require.Equal(t, "1 initializing rank.restart.attempt <nil>", hear(t, changes),
		"the new owner's policy counts")
	require.Equal(t, "1 running rank.restart.success <nil>", hear(t, changes))
	actors, err := mesh.SpawnActors(t.Context(), mine, counter, mesh.ActorSpawnSpec[int64]{Label: "counters"})
	require.NoError(t, err)
	sum, err := cast.Reduce(t.Context(), actors, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 4, sum, "casts reach the present procs")
	require.NotEqual(t, counters.Name(), actors.Name())
	require.NoError(t, mine.Stop(t.Context()))
	_, err = mine.TakeOver(t.Context(), mesh.Takeover{})
	require.ErrorContains(t, err, "has ended")
}
