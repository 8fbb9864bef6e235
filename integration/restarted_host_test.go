package integration

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// lostWithHost is the reason of ranks that ended with the hostd before the present one of host b.
const lostWithHost = "host b does not have it: hostd has started again"

// replaced is a mesh on two hosts, a and b. The next hostd of b has the ID of the one before.
type replaced struct {
	*cluster
	conn  *mesh.Net
	state string
	procs mesh.ProcMesh
}

func newReplaced(t *testing.T, spec mesh.SpawnSpec) *replaced {
	t.Helper()
	r := &replaced{cluster: newCluster(t), state: t.TempDir()}
	r.nodes = []*node{r.startNode(t, "a", "--state-dir", t.TempDir()), r.startNode(t, "b", "--state-dir", r.state)}
	for _, n := range r.nodes {
		n.ready(t)
	}
	r.conn = r.connect(t)
	hosts, err := r.conn.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	spec.Name, spec.PerHost = "workers", shape.Of("proc", 2)
	r.procs, err = hosts.SpawnProcs(t.Context(), spec)
	require.NoError(t, err)
	return r
}

// startAgain starts the next hostd of b.
func (r *replaced) startAgain(t *testing.T) {
	t.Helper()
	r.nodes = append(r.nodes, r.startNode(t, "b", "--state-dir", r.state))
	r.nodes[len(r.nodes)-1].ready(t)
}

// killAndStartAgain ends the hostd of b with kill -9, and starts the next one at once.
func (r *replaced) killAndStartAgain(t *testing.T) {
	t.Helper()
	r.nodes[1].kill(t)
	r.startAgain(t)
}

// requireLost requires that both ranks of b failed, with the reason.
func (r *replaced) requireLost(t *testing.T) {
	t.Helper()
	told := map[int]string{}
	for e, err := range r.procs.Slice("host", 1, 2).Watch(testkit.Soon(t)) {
		require.NoError(t, err)
		told[e.Rank] = fmt.Sprint(e.Status, " on ", e.Host[:1], ": ", e.Reason)
		if len(told) == 2 {
			break
		}
	}
	want := "failed on b: " + lostWithHost
	require.Equal(t, map[int]string{2: want, 3: want}, told)
}

// requireProcesses requires that a number of processes of procs are left.
func (r *replaced) requireProcesses(t *testing.T, n int) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	require.Len(t, r.running(t, self), n)
}

func TestHostStartedAgain_itsLostRanksFailWithoutAStop_CTL8(t *testing.T) {
	t.Parallel()
	r := newReplaced(t, mesh.SpawnSpec{})
	m := counters(t, r.procs)
	r.killAndStartAgain(t)
	r.requireLost(t)
	r.requireProcesses(t, 2)
	_, err := cast.Gather(t.Context(), m, counting.Progress, actor.None{})
	require.ErrorIs(t, err, actor.ErrProcDead)
}

func TestHostStartedAgain_shrinkWaitsForNoLostRank_CTL8(t *testing.T) {
	t.Parallel()
	r := newReplaced(t, mesh.SpawnSpec{})
	r.killAndStartAgain(t)
	small, err := r.procs.Shrink(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "host=1,proc=2", small.Extent().String())
	r.requireProcesses(t, 2)
	require.NoError(t, small.Stop(t.Context()))
	r.requireProcesses(t, 0)
}

func TestHostStartedAgain_shrinkAsksTheHostThatReturns_CTL8(t *testing.T) {
	t.Parallel()
	r := newReplaced(t, mesh.SpawnSpec{})
	r.nodes[1].kill(t)
	done := make(chan error, 1)
	go func() {
		_, err := r.procs.Shrink(t.Context(), 1)
		done <- err
	}()
	r.startAgain(t)
	require.NoError(t, testkit.Next(t, done))
	r.requireProcesses(t, 2)
}

func TestHostStartedAgain_castnetStopEndsTheMesh_CTL8(t *testing.T) {
	t.Parallel()
	r := newReplaced(t, mesh.SpawnSpec{})
	r.killAndStartAgain(t)
	out, code := r.run(t, "castnet", "stop", "workers")
	require.Zero(t, code, out)
	r.requireLost(t)
	r.requireProcesses(t, 0)
}

func TestHostStartedAgain_policyStartsLostRanksAgainInTheirPlace_CTL6(t *testing.T) {
	t.Parallel()
	policy := mesh.RestartPolicy{Restart: mesh.Transient}
	r := newReplaced(t, mesh.SpawnSpec{RestartPolicy: policy})
	m, err := mesh.SpawnActors(t.Context(), r.procs, counting.Type,
		mesh.ActorSpawnSpec[actor.None]{Label: "counters", RestartPolicy: policy})
	require.NoError(t, err)
	r.killAndStartAgain(t)
	again := 0
	for e, err := range m.Changes(testkit.Soon(t)) {
		require.NoError(t, err)
		if e.Step == "rank.restart.success" {
			again++
		}
		if again == 2 {
			break
		}
	}
	all, err := cast.Gather(t.Context(), m, counting.Progress, actor.None{})
	require.NoError(t, err)
	require.Equal(t, 4, all.Len())
	states, err := r.procs.States(t.Context())
	require.NoError(t, err)
	last, ok := states.At(3)
	require.True(t, ok)
	require.Equal(t, 1, last.Gen)
	require.Equal(t, "b", last.Proc.Host[:1])
	r.requireProcesses(t, 4)
	require.NoError(t, r.procs.Stop(t.Context()))
}

func TestHostStartedAgain_keptRanksAreAdoptedAndRun_CTL16(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	k.nodes[1].kill(t)
	k.nodes = append(k.nodes, k.startNode(t, "b", "--state-dir", k.state))
	require.Eventually(t, func() bool {
		now := k.states(t)
		return now[2].Proc != nil && now[2].Proc.Adopted && now[3].Proc != nil && now[3].Proc.Adopted
	}, testkit.Patience, poll)
	for begun := time.Now(); time.Since(begun) < time.Second; { // several renewals
		_, err := cast.Gather(t.Context(), k.actor, counting.Progress, actor.None{})
		require.NoError(t, err)
	}
	for i, now := range k.states(t) {
		require.Equal(t, []any{k.was[i].Proc.PID, 0, agent.Running}, []any{now.Proc.PID, now.Gen, now.Status.Phase})
	}
	_, err := k.procs.Shrink(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, k.procs.Stop(t.Context()))
}
