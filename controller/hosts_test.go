package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/agenttest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// gotten is an allocation of missing hosts.
type gotten struct {
	ids  []subjects.HostID
	back chan struct{} // one for each time that they are given back

	mu   sync.Mutex
	errs []error       // of the first times
	free chan struct{} // set: nothing is given back until it is closed, or who wants it has no more time
}

func (g *gotten) Hosts() []subjects.HostID { return slices.Clone(g.ids) }

func (g *gotten) Close(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free != nil {
		select {
		case <-g.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if len(g.errs) > 0 {
		err := g.errs[0]
		g.errs = g.errs[1:]
		return err
	}
	g.back <- struct{}{}
	return nil
}

// hosting is a controller with hosts.
func (r *rig) hosting(t *testing.T, n int) (actor.Ref[agent.Agent], *gotten) {
	t.Helper()
	spec := hostsOf(t, n)
	ref := r.own(t, spec)
	got := &gotten{ids: spec.Procs.Hosts, back: make(chan struct{}, 8)}
	require.NoError(t, HoldAllocation(t.Context(), ref, got))
	return ref, got
}

// reportHost gives a controller a change of a host.
func reportHost(t *testing.T, ref actor.Ref[agent.Agent], host subjects.HostID, s presence.State) {
	t.Helper()
	c := presence.Change{Host: host, State: s, Mode: agent.ModeOpen, Reason: "for a test", At: time.Now()}
	_, err := notify.Call(t.Context(), ref, notification{hostChange(c)})
	require.NoError(t, err)
}

func TestHostMesh_fulfilsTheAgentContract_CTL17(t *testing.T) {
	t.Parallel()
	agenttest.TestAgentInBubbles(t, func(t *testing.T) agenttest.Fixture {
		r := newRig(t)
		ref, _ := r.hosting(t, 2)
		states, err := agent.Get.Call(t.Context(), ref, agent.GetRequest{})
		require.NoError(t, err)
		return agenttest.Fixture{
			Agent: ref, Client: r.p,
			New: func(*testing.T) agent.CreateRequest { return agent.CreateRequest{} },
			ID:  func(agent.CreateRequest) string { return states[0].ID },
		}
	})
}

func TestHostMesh_controllerReturnsItsHostsOnce_CTL17(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(t *testing.T, r *rig, ref actor.Ref[agent.Agent]){
		"it is stopped": func(_ *testing.T, r *rig, ref actor.Ref[agent.Agent]) {
			r.p.StopActor(ref.ID().Name, "done")
		},
		"it is killed": func(_ *testing.T, r *rig, ref actor.Ref[agent.Agent]) {
			r.p.KillActor(ref.ID().Name, "for a test")
		},
		"its proc ends": func(_ *testing.T, r *rig, _ actor.Ref[agent.Agent]) { r.close() },
		"it stops its all": func(t *testing.T, _ *rig, ref actor.Ref[agent.Agent]) {
			s, err := agent.StopAll.Call(t.Context(), ref, agent.StopAllRequest{Reason: "done"})
			require.NoError(t, err)
			require.Equal(t, 2, s.Ended)
		},
		"it panics": func(t *testing.T, _ *rig, ref actor.Ref[agent.Agent]) {
			for _, broken := range []any{allocated{}, released{}} {
				_ = notify.Send(t.Context(), ref, notification{broken})
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			ref, got := r.hosting(t, 2)
			end(t, r, ref)
			testkit.Next(t, got.back)
			r.close()
			require.Empty(t, got.back)
		})
	}
}

func TestHostMesh_failedReturnIsReportedAndRetried_CTL17(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref, got := r.hosting(t, 2)
	notNow := errors.New("not now")
	got.errs = []error{notNow}
	_, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Reason: "done"})
	require.ErrorIs(t, err, notNow)
	states, err := agent.Get.Call(t.Context(), ref, agent.GetRequest{})
	require.NoError(t, err)
	require.Equal(t, "stopping: cannot release the host: not now", states[1].Status.String())

	for range 2 {
		o, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Reason: "again"})
		require.NoError(t, err)
		require.Equal(t, agent.Stopped, o[0].Status.Phase)
		require.Equal(t, 2, o[0].Count)
	}
	testkit.Next(t, got.back)
	require.Empty(t, got.back)
}

func TestHostMesh_stopAnswersBeforeEachCallersDeadline_CTL17(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		ref, got := r.hosting(t, 2)
		got.free = make(chan struct{})
		patient := make(chan error, 1)
		go func() {
			_, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Reason: "done"})
			patient <- err
		}()
		_, err := agent.Wait.Call(t.Context(), ref, agent.WaitRequest{ID: idOf(t, ref), Until: agent.ShuttingDown})
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o, err := agent.Stop.Call(soon, ref, agent.StopRequest{ID: idOf(t, ref), Reason: "again"})
		require.NoError(t, err)
		require.Equal(t, "stopping: done", o[0].Status.String(), "as they are then")
		close(got.free)
		require.NoError(t, <-patient)
		testkit.Next(t, got.back)
	})
}

func TestHostMesh_newSubscriberHearsFailuresAndHeartbeats_CTL17(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref, got := r.hosting(t, 2)
	reportHost(t, ref, got.ids[1], presence.Dead)
	reportHost(t, ref, got.ids[1], presence.Dead)
	other, closeOther := testproc.Start(t, r.srv, testproc.Options{}, Def())
	there := ref.Via(other)
	e := list(t, there, 0)[0]
	require.Equal(t, "host.dead failed 1 host=1/2", e.Step+" "+e.Status+" "+string(rune('0'+e.Rank))+" "+e.Point)
	require.Empty(t, list(t, there, e.Seq))
	report, err := Health.Call(t.Context(), there, actor.None{})
	require.NoError(t, err)
	require.Equal(t, got.ids, report.Procs.Hosts)
	require.Len(t, report.Failed, 1)
	require.Equal(t, got.ids[1].String(), report.Hosts[0].Host)
	reportHost(t, ref, got.ids[1], presence.Alive)
	e = list(t, there, e.Seq)[0]
	require.Equal(t, "host.alive", e.Step)
	require.Equal(t, 1, e.Gen, "another incarnation")
	require.Len(t, list(t, there, 0), 1, "a late watcher gets the latest change of each host")
	closeOther()
}

func TestHostMesh_refusesUnsupportedRequests_CTL17(t *testing.T) { // CTL-9
	t.Parallel()
	r := newRig(t)
	ref, got := r.hosting(t, 2)
	require.ErrorContains(t, HoldAllocation(t.Context(), ref, got), "has its hosts")
	_, err := agent.Restart.Call(t.Context(), ref, agent.RestartRequest{ID: idOf(t, ref)})
	require.ErrorContains(t, err, "does not have this endpoint: want a mesh of procs")
	part, err := shape.Of("host", 2).Region().Slice("host", 0, 1)
	require.NoError(t, err)
	_, err = agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Region: &part})
	require.ErrorContains(t, err, "want all hosts")
	fresh := r.own(t, hostsOf(t, 3))
	require.ErrorContains(t, HoldAllocation(t.Context(), fresh, got), "cannot hold 2 hosts")
	require.ErrorContains(t, HoldAllocation(t.Context(), r.own(t, r.spec), got), "want a mesh of hosts")

	other, _ := testproc.Start(t, r.srv, testproc.Options{}, Def())
	require.ErrorContains(t, HoldAllocation(t.Context(), fresh.Via(other), got),
		"its own process may", "hosts do not travel")
	_, err = notify.Call(t.Context(), ref.Via(other), notification{released{}})
	require.ErrorIs(t, err, actor.ErrDenied)
	o, err := agent.Wait.Call(t.Context(), ref, agent.WaitRequest{ID: idOf(t, ref), Until: agent.Running})
	require.NoError(t, err)
	require.Equal(t, agent.Running, o[0].Status.Phase, "and news of others are none (CTL-9)")
	bad := hostsOf(t, 2)
	bad.Procs.PerHost = 2
	bad.Procs.Hosts = bad.Procs.Hosts[:1]
	require.ErrorContains(t, bad.check(), "a host mesh wants one rank on every host")
}
