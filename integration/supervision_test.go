package integration

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// keeper is an actor in a process of its own. It owns actors on the procs of others.
type keeper struct{ net *mesh.Net }

// charge is a mesh of procs for the keeper's actors, and the time for which these outlive the
// keeper.
type charge struct {
	Procs mesh.ProcMesh
	Lease time.Duration
}

var (
	keeperType = actor.NewType[*keeper, actor.None]("keeper")
	keep       = actor.NewEndpoint[*keeper, charge, mesh.ActorMesh[actortest.TestActor]]("keep")
)

func keeperDef() actor.Def {
	return keeperType.Define(func(ctx *actor.Context, _ actor.None) (*keeper,
		error) {
		return &keeper{mesh.NetOf(ctx)}, nil
	}, keep.Handle((*keeper).keep))
}

func (k *keeper) keep(ctx *actor.Context, c charge) (mesh.ActorMesh[actortest.TestActor], error) {
	return mesh.SpawnActors(ctx, c.Procs.Via(k.net), actortest.TestActors,
		mesh.ActorSpawnSpec[actor.None]{Label: "kept", Lease: c.Lease})
}

func (k *keeper) Cleanup(ctx *actor.Context, _ error) error { return k.net.Close(ctx) }

// Meaning of test_orphaned_actors_cleaned_up_on_controller_crash: the process of a controller ends
// without a stop of its actors on other hosts.
func TestOrphanedActors_endWithTheirControllersProcess(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	conn := c.connect(t)
	hosts, err := conn.AwaitHosts(t.Context(), 3)
	require.NoError(t, err)
	procs, err := hosts.Slice("host", 0, 2).Spawn(t.Context(), "workers", shape.Of("proc", 2))
	require.NoError(t, err)
	apart, err := hosts.Slice("host", 2, 3).Spawn(t.Context(), "controllers", shape.Unit())
	require.NoError(t, err)
	keepers, err := mesh.Spawn(t.Context(), apart, keeperType, "keepers", actor.None{})
	require.NoError(t, err)
	enders, err := mesh.Spawn(t.Context(), apart, actortest.TestActors, "enders", actor.None{})
	require.NoError(t, err)
	const lease = 5 * time.Second // a keeper on a busy machine renews it in time
	kept, err := keep.Call(t.Context(), keepers.Ref(0), charge{procs, lease})
	require.NoError(t, err)
	time.Sleep(lease + 2*time.Second) // longer than their lease, which agents time by their own clock
	require.Equal(t, map[agent.Phase]int{agent.Running: 4}, phases(t, procs, kept.Name()))

	require.NoError(t, actortest.CauseFailure.Send(t.Context(), enders.Ref(0),
		actortest.Failure{Kind: actortest.Exit, Code: 1}))
	for e, err := range apart.Watch(testkit.Soon(t)) {
		require.NoError(t, err)
		require.True(t, e.Failed())
		break
	}
	require.Eventually(t, func() bool { return phases(t, procs, kept.Name())[agent.Stopped] == 4 },
		testkit.Patience, poll)
	states, err := procs.ActorStates(t.Context(), kept.Name())
	require.NoError(t, err)
	require.Equal(t, agent.OrphanedReason(lease), states.Values()[3].Status.Reason)
	require.Len(t, testmesh.PIDs(t, conn, procs.ID().String()), 4, "the procs have another owner")
	orphans := 0
	for e, err := range kept.Via(conn).Watch(testkit.Soon(t)) {
		if err == nil {
			require.Equal(t, agent.OrphanedReason(lease), e.Reason)
			orphans++
			continue
		}
		var gone *mesh.ControllerError
		require.ErrorAs(t, err, &gone, "and the caller's error names the cause")
	}
	require.Equal(t, 4, orphans)
}

// phases counts the ranks of an actor mesh by the phases in the agents of its procs.
func phases(t *testing.T, procs mesh.ProcMesh, name string) map[agent.Phase]int {
	t.Helper()
	states, err := procs.ActorStates(t.Context(), name)
	require.NoError(t, err)
	n := map[agent.Phase]int{}
	for _, s := range states.Values() {
		n[s.Status.Phase]++
	}
	return n
}

// C15: a call to a dead proc must not wait for its deadline.
func TestFaultC15_everyPendingCallFailsWhenItsProcDies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	conn := c.connect(t)
	procs := c.spawn(t, conn, 2)
	sleepers, err := mesh.Spawn(t.Context(), procs, actortest.SleepActors, "sleepers", actor.None{})
	require.NoError(t, err)
	const calls = 8
	failed := make(chan error, calls)
	for range calls { // the first is being handled, the others wait in its mailbox
		go func() {
			_, err := actortest.Sleep.Call(t.Context(), sleepers.Ref(1), time.Hour)
			failed <- err
		}()
	}
	require.Eventually(t, func() bool {
		all, err := procs.ActorStates(t.Context(), sleepers.Name())
		require.NoError(t, err)
		s := all.Values()[1].Actor
		return s != nil && s.Queued+int(s.Handled) >= calls-1
	}, testkit.Patience, poll)
	killed := time.Now()
	require.NoError(t, syscall.Kill(testmesh.PIDs(t, conn, procs.ID().String())[1], syscall.SIGKILL))
	for range calls {
		require.ErrorIs(t, <-failed, actor.ErrProcDead)
	}
	t.Logf("%d calls failed %s after the kill", calls, time.Since(killed).Round(time.Millisecond))
	_, err = actortest.Sleep.Call(t.Context(), sleepers.Ref(0), time.Millisecond)
	require.NoError(t, err, "the others answer")
}

// The table of a process's end and its actors' status (test_proc_status_to_actor_status_…), with
// real processes.
func TestProcEnds_determineTheActorStatus(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	conn := c.connect(t)
	procs := c.spawn(t, conn, 3)
	actors, err := mesh.Spawn(t.Context(), procs, actortest.TestActors, "actors", actor.None{})
	require.NoError(t, err)
	for rank, f := range []actortest.Failure{{Kind: actortest.Exit}, {Kind: actortest.Exit, Code: 1},
		{Kind: actortest.Kill}} {
		require.NoError(t, actortest.CauseFailure.Send(t.Context(), actors.Ref(rank), f))
	}
	got := make([]string, 3)
	n := 0
	for e, err := range actors.Watch(testkit.Soon(t)) {
		require.NoError(t, err)
		// a killed proc may have warned that the receiver of an answer is gone
		how, _, _ := strings.Cut(e.Reason, "\n")
		got[e.Rank] = e.Status + ": " + how
		if n++; n == len(got) {
			break
		}
	}
	require.Equal(t, []string{"stopped: exited cleanly", "failed: exited with code 1",
		"failed: killed by signal 9 (killed)"}, got)
	require.NoError(t, actors.Stop(t.Context()), "nothing is left to stop")
}
