package integration

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// kept is a mesh on two hosts, a and b. The next hostd of b finds the state of the one before.
type kept struct {
	*cluster
	state string
	hosts mesh.HostMesh
	procs mesh.ProcMesh
	actor mesh.ActorMesh[*counting.Counter]
	was   []agent.State // of the procs
}

func newKept(t *testing.T) *kept {
	t.Helper()
	k := &kept{cluster: newCluster(t), state: t.TempDir()}
	k.nodes = []*node{k.startNode(t, "a", "--state-dir", t.TempDir()),
		k.startNode(t, "b", "--state-dir", k.state)}
	for _, n := range k.nodes {
		n.ready(t)
	}
	conn := k.connect(t)
	require.NoError(t, config.SupervisionPollInterval.Override(conn.Config(), 500*time.Millisecond))
	var err error
	k.hosts, err = conn.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	k.procs, err = k.hosts.SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "kept", PerHost: shape.Of("proc", 2), Keep: true})
	require.NoError(t, err)
	k.actor, k.was = counters(t, k.procs), k.states(t)
	return k
}

func (k *kept) states(t *testing.T) (all []agent.State) {
	t.Helper()
	states, err := k.procs.States(t.Context())
	require.NoError(t, err)
	for _, s := range states.All() {
		all = append(all, s)
	}
	return all
}

// killHost kills the hostd of b, and waits until it is known to be dead.
func (k *kept) killHost(t *testing.T) {
	t.Helper()
	k.nodes[1].kill(t)
	for e, err := range k.hosts.Changes(testkit.Soon(t)) {
		require.NoError(t, err)
		if e.Step == "host.dead" {
			return
		}
	}
}

func TestKeptMesh_ranksSurviveTheirHostAndJoinTheNext_CTL16(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	k.killHost(t)
	// each is several requests to the procs
	for begun := time.Now(); time.Since(begun) < 1500*time.Millisecond; {
		_, err := counting.Progress.Call(t.Context(), k.actor.At("host", 1, "proc", 1), actor.None{})
		require.NoError(t, err, "its actors go on")
	}
	k.nodes = append(k.nodes, k.startNode(t, "b", "--state-dir", k.state))
	require.Eventually(t, func() bool {
		now := k.states(t)
		for i, was := range k.was {
			if now[i].Proc == nil || now[i].Proc.PID != was.Proc.PID || now[i].Gen != was.Gen ||
				now[i].Status.Phase != agent.Running {
				return false
			}
		}
		return now[3].Proc.Adopted
	}, testkit.Patience, poll)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for e, err := range k.procs.Watch(ctx) {
		require.ErrorIs(t, err, context.DeadlineExceeded, "%v: no rank has ended", e)
	}
	require.NoError(t, k.procs.Stop(t.Context()))
}

func TestKeptMesh_ranksFailWhenProcsDieWithTheHost_CTL16(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	k.killHost(t)
	for _, s := range k.was[2:] {
		require.NoError(t, syscall.Kill(s.Proc.PID, syscall.SIGKILL))
	}
	told := map[int]string{}
	for e, err := range k.procs.Watch(testkit.Soon(t)) {
		require.NoError(t, err)
		require.Contains(t, e.Reason, "host b is dead")
		if told[e.View] = e.Status; len(told) == 2 {
			break
		}
	}
	require.Equal(t, map[int]string{2: "failed", 3: "failed"}, told)
}
