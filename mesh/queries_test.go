package mesh_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func TestStates_areByRankAndNameMissingRanks(t *testing.T) { // MESH-9
	t.Parallel()
	c := newCluster(t, "a", "b")
	procs, counters := c.workers(t, 2, 10)
	victim := c.pids(t, procs)[2]
	require.NoError(t, syscall.Kill(victim, syscall.SIGKILL))
	part := procs.Slice("host", 1, 2)
	require.Eventually(t, func() bool {
		states, err := part.States(t.Context())
		require.NoError(t, err)
		s, _ := states.At(0)
		return s.Status.Phase == agent.Failed && s.Rank == 0 && s.Proc.Signal == 9 &&
			s.Proc.State == agent.ProcessKilled
	}, 10*time.Second, 20*time.Millisecond)
	alive, err := procs.Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, false, true}, alive.Values())
	states, err := counters.Slice("host", 1, 2).States(t.Context())
	require.NoError(t, err)
	require.Equal(t, agent.Failed, states.Values()[0].Status.Phase, "the end of its proc is known")
	require.Contains(t, states.Values()[0].Status.Reason, "killed by signal 9")
	require.Equal(t, agent.Running, states.Values()[1].Status.Phase)
	_, err = procs.Slice("host", 0, 1).ActorStates(t.Context(), "nobody-000000000000n")
	var unknown *mesh.NotFoundError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "nobody-000000000000n", unknown.Name)
	require.ErrorContains(t, err, "does not exist on rank 0 (host=0/2,gpu=0/2)")
}

func TestSpawnActors_allowPartialKeepsStartedRanks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, _ := c.workers(t, 3, 0)
	some, err := mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "some", Params: -1, AllowPartial: true})
	var failed *mesh.SpawnError
	require.ErrorAs(t, err, &failed)
	require.Len(t, failed.Failed, 1)
	require.Equal(t, 1, failed.Failed[0].Rank)
	require.Contains(t, failed.Failed[0].Status.Reason, "cannot count from -1")
	n, err := add.Call(t.Context(), some.Ref(2), 3)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	states, err := some.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, []agent.Phase{agent.Running, agent.Failed, agent.Running}, phases(states))
	none, err := mesh.Spawn(t.Context(), procs, counter, "none", int64(-1))
	require.ErrorAs(t, err, &failed)
	require.Error(t, none.Err(), "all or nothing")
}

func phases(states shape.ValueMesh[agent.State]) (out []agent.Phase) {
	for _, s := range states.Values() {
		out = append(out, s.Status.Phase)
	}
	return out
}

func TestSpawnActors_withoutAControllerHaveNoOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, _ := c.workers(t, 2, 0)
	free, err := mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "free", Params: 5, Uncontrolled: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ends := eventWords(t, free.Watch(ctx))
	_, err = crash.Call(t.Context(), free.Ref(0), actor.None{})
	require.Error(t, err)
	require.Equal(t, "0.0 at 0 failed <nil>", testkit.Next(t, ends))
	found, err := mesh.Find[*Counter](t.Context(), procs, free.Name())
	require.NoError(t, err)
	part := eventWords(t, found.Slice("gpu", 1, 2).Watch(ctx))
	late := eventWords(t, mesh.ActorsOn[*Counter](procs, free.Name()).Watch(ctx))
	require.Equal(t, "0.0 at 0 failed <nil>", testkit.Next(t, late), "earlier ends are reported")
	require.NoError(t, found.Stop(t.Context()), "any program may stop a mesh without an owner")
	require.Equal(t, "1.0 at 0 stopped <nil>", testkit.Next(t, part))
	for _, all := range []<-chan string{ends, late} {
		require.Equal(t, "1.0 at 1 stopped <nil>", testkit.Next(t, all))
	}
	cancel()
	_, more := <-ends
	require.False(t, more, "each end once")
	states, err := free.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, []agent.Phase{agent.Failed, agent.Stopped}, phases(states))
	_, err = mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "free", Params: -5, Uncontrolled: true})
	var failed *mesh.SpawnError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 1, failed.Failed[0].Rank)
	states, err = procs.ActorStates(t.Context(), failed.Mesh)
	require.NoError(t, err)
	require.Equal(t, []agent.Phase{agent.Stopped, agent.Failed}, phases(states), "started actors are stopped")
}

func TestService_overlappingViewsShareItAndConflictsFail(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, _ := c.workers(t, 3, 0)
	left, err := mesh.Service(t.Context(), procs.Slice("gpu", 0, 2), counter, "tally", int64(100))
	require.NoError(t, err)
	_, err = cast.Gather(t.Context(), left, add, 1)
	require.NoError(t, err)
	right, err := mesh.Service(t.Context(), procs.Slice("gpu", 1, 3), counter, "tally", int64(100))
	require.NoError(t, err)
	all, err := cast.Gather(t.Context(), right, add, 1)
	require.NoError(t, err)
	require.Equal(t, []int64{102, 101}, all.Values(), "rank 1 is the earlier actor")
	_, err = mesh.Service(t.Context(), procs, counter, "tally", int64(7))
	require.ErrorContains(t, err, "exists already with another spec")
	_, err = mesh.Service(t.Context(), procs, counter, agent.Name, int64(7))
	require.ErrorContains(t, err, "the name belongs to the agent of a proc")
	require.NoError(t, right.Stop(t.Context()), "any program may stop a mesh without an owner")
	states, err := left.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, []agent.Phase{agent.Running, agent.Stopped}, phases(states))
}

// Meaning of test_halting_proc_allocation: the program of one host never reports, and that of the
// other is healthy.
func TestSpawnProcs_progressTimeoutNamesSilentRanks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	hosts := c.AllHosts(t, c.Net)
	self, err := os.Executable()
	require.NoError(t, err)
	var failed *mesh.SpawnError
	for timeout := 3 * time.Second; ; timeout *= 2 { // a busy machine needs longer for the other one
		first := filepath.Join(t.TempDir(), "first") // who makes it sleeps
		_, err = hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{
			Name: "halting", PerHost: shape.Unit(), ProgressTimeout: timeout,
			Command: mesh.Command{Path: "/bin/sh",
				Args: []string{"-c", `mkdir "$0" 2>/dev/null && exec sleep 600; exec "$1"`, first, self}},
		})
		require.ErrorAs(t, err, &failed)
		if len(failed.Failed) == 1 || timeout >= testkit.Patience {
			break
		}
	}
	require.Equal(t, 2, failed.Ranks)
	require.Len(t, failed.Failed, 1)
	require.Equal(t, agent.Timeout, failed.Failed[0].Status.Phase)
	require.Contains(t, failed.Failed[0].Status.Reason, "still initializing after")
	require.Equal(t, hosts.Hosts()[failed.Failed[0].Rank].String(), failed.Failed[0].Host)
}

// Meaning of test_failing_proc_allocation.
func TestSpawnProcs_failedProgramIsNamedWithExitAndOutput(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	_, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "failing", PerHost: shape.Unit(),
		Command: mesh.Command{Path: "/bin/sh", Args: []string{"-c", "echo no luck >&2; exit 1"}},
	})
	var failed *mesh.SpawnError
	require.ErrorAs(t, err, &failed)
	require.IsType(t, failed, err, "no other error is joined")
	require.Equal(t, agent.Failed, failed.Failed[0].Status.Phase)
	require.Contains(t, failed.Failed[0].Status.Reason, "exited with code 1")
	require.Contains(t, failed.Failed[0].Status.Reason, "no luck")
	require.NotNil(t, failed.Failed[0].Process)
	require.Equal(t, 1, *failed.Failed[0].Process.ExitCode)
	require.Equal(t, []string{"no luck"}, failed.Failed[0].Process.StderrTail)
	require.Equal(t, failed.Mesh+"/0.0/agent", failed.Failed[0].Agent.String())
}

func TestLease_actorsEndWhenTheirOwnerIsGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, _ := c.workers(t, 2, 0)
	other := c.Connect(t)
	seen, err := other.Lookup(t.Context(), "workers")
	require.NoError(t, err)
	const lease = 5 * time.Second // an owner on a busy machine renews it in time
	counters, err := mesh.SpawnActors(t.Context(), seen, counter,
		mesh.ActorSpawnSpec[int64]{Label: "short", Params: 1, Lease: lease})
	require.NoError(t, err)
	time.Sleep(lease + 2*time.Second) // hosts time the lease by their own clock: it is renewed
	alive, err := procs.ActorStates(t.Context(), counters.Name())
	require.NoError(t, err)
	require.Equal(t, []agent.Phase{agent.Running, agent.Running}, phases(alive))
	other.Proc().KillActor(ownerOf(t, other), "killed")
	require.Eventually(t, func() bool {
		states, err := procs.ActorStates(t.Context(), counters.Name())
		require.NoError(t, err)
		return states.Values()[0].Status.Phase == agent.Stopped && states.Values()[1].Status.Phase == agent.Stopped
	}, 30*time.Second, 50*time.Millisecond)
}

// ownerOf is the one controller of a client.
func ownerOf(t *testing.T, n *mesh.Net) string {
	t.Helper()
	for _, a := range n.Proc().Actors() {
		if a.Type == "controller" {
			return a.Name
		}
	}
	t.Fatal("it has no controller")
	return ""
}
