package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func (r *rig) states(t *testing.T) (all []agent.State) {
	t.Helper()
	p := r.teller(t)
	for _, h := range r.spec.Procs.Hosts {
		states, err := agent.Get.Call(t.Context(), hostAgent(p, h), agent.GetRequest{ID: r.spec.id()})
		require.NoError(t, err)
		all = append(all, states...)
	}
	return all
}

func TestTakeOver_twoControllersNeverBothAct_CTL10(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.spec.Lease = time.Second
		first := r.own(t, r.spec)
		create(t, first)
		wait(t, first, agent.Running)
		told := subscribe(t, r.p, first)

		spec, err := TakeOver(r.spec.Procs.ID, r.states(t), 1)
		require.NoError(t, err)
		spec.Lease = time.Minute // the one that is fenced is the one that speaks first
		second := r.own(t, spec)
		create(t, second)
		require.Equal(t, one(4, agent.Running, ""), wait(t, second, agent.Running))
		for _, h := range r.hosts {
			require.Equal(t, 1, h.count("create"), "nothing is started")
		}

		lost := testkit.Next(t, told)
		require.Equal(t, agent.StepFenced, lost.Step, "its next renewal is refused")
		f := agent.FencedFromEvent(lost)
		require.Equal(t, agent.Claim{Epoch: 1, Owner: first.ID()}, f.Requested)
		require.Equal(t, agent.Claim{Epoch: 2, Owner: second.ID()}, f.Current)
		require.Equal(t, f, agent.FencedFromEvent(testkit.Next(t, subscribe(t, r.p, first))),
			"a later watcher learns of it, too")
		for _, ask := range []func() error{
			func() error {
				_, err := agent.Stop.Call(t.Context(), first, agent.StopRequest{ID: idOf(t, first)})
				return err
			},
			func() error { _, err := agent.Wait.Call(t.Context(), first, agent.UntilEnded("")); return err },
		} {
			require.Equal(t, f, agent.AsFenced(ask()))
		}
		_, err = agent.StopAll.Call(t.Context(), first, agent.StopAllRequest{})
		require.NoError(t, err, "it ends, and leaves the mesh alone")
		require.Equal(t, one(4, agent.Running, ""), wait(t, second, agent.Running))
		for _, h := range r.hosts {
			require.Zero(t, h.stopCount())
		}
		o, err := agent.Stop.Call(t.Context(), second, agent.StopRequest{ID: idOf(t, second), Reason: "done"})
		require.NoError(t, err)
		require.Equal(t, one(4, agent.Stopped, "done"), o)
	})
}

func TestTakeOver_refusedStopIsAnsweredAtOnce_CTL10(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.own(t, r.spec)
	create(t, first)
	wait(t, first, agent.Running)
	spec, err := TakeOver(r.spec.Procs.ID, r.states(t), 0)
	require.NoError(t, err)
	second := r.own(t, spec)
	create(t, second)
	wait(t, second, agent.Running)
	o, err := agent.Stop.Call(t.Context(), first, agent.StopRequest{ID: idOf(t, first), Reason: "done"})
	require.NoError(t, err)
	require.Equal(t, one(4, agent.ShuttingDown, "done"), o, "its last known state")
	_, err = agent.Stop.Call(t.Context(), first, agent.StopRequest{ID: idOf(t, first), Reason: "done"})
	require.NotNil(t, agent.AsFenced(err))
}

func TestTakeOver_usesTheNewestClaimAndCurrentHosts(t *testing.T) {
	m := meshOf(t, shape.Of("host", 2).With("gpu", 2), 2)
	spare := testproc.HostID(t, "spare")
	has := agent.Claim{Epoch: 4, Owner: m.Owner}
	id, runs := m.ID.String(), agent.Status{Phase: agent.Running}
	of := func(host subjects.HostID) *agent.ProcInfo { return &agent.ProcInfo{Host: host.String()} }
	states := []agent.State{
		{ID: id, Rank: 0, Status: runs, Mesh: &m, Claim: &has, Proc: of(m.Hosts[0])},
		{ID: id, Rank: 2, Status: agent.Status{Phase: agent.Failed}, Mesh: &m, Proc: of(m.Hosts[1])},
		{ID: id, Rank: 2, Gen: 1, Status: runs, Proc: of(spare)},
		{ID: "other", Rank: 0, Gen: 9, Mesh: &agent.Mesh{}},
	}
	s, err := TakeOver(m.ID, states, 4)
	require.NoError(t, err)
	require.NoError(t, s.check())
	require.Equal(t, []subjects.HostID{m.Hosts[0], spare}, s.Procs.Hosts)
	require.NotEqual(t, m.Hosts, s.Procs.Hosts, "and the earlier answer is unchanged")
	require.EqualValues(t, 5, s.Epoch)

	_, err = TakeOver(m.ID, states, 3)
	require.Equal(t, &agent.FencedError{ID: id, Agent: "hosts", Requested: agent.Claim{Epoch: 3, Owner: m.Owner},
		Current: has}, err)
	_, err = TakeOver(m.ID, states[3:], 0)
	require.EqualError(t, err, "mesh "+id+": no host has it")
	_, err = TakeOver(m.ID, states[1:2], 0)
	require.EqualError(t, err, "mesh "+id+" has ended")
	m.World = &agent.WorldShare{World: "foo"}
	_, err = TakeOver(m.ID, states, 0)
	require.EqualError(t, err, "mesh "+id+" belongs to world foo: its owner is the system controller")
}

func TestCreate_isRefusedAfterStopAll_AGT8(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.own(t, r.spec)
	create(t, c)
	wait(t, c, agent.Running)
	require.NoError(t, agent.StopAll.Send(t.Context(), c, agent.StopAllRequest{Reason: "enough"}))
	_, err := agent.Create.Call(t.Context(), c, agent.CreateRequest{})
	require.Error(t, err, "it has not ended yet, or has")
}

func TestTakeOver_formerLeaseDoesNotEndAMeshWithoutOne_CTL10(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.spec.Lease = time.Minute
	first := r.own(t, r.spec)
	create(t, first)
	wait(t, first, agent.Running)
	spec, err := TakeOver(r.spec.Procs.ID, r.states(t), 1)
	require.NoError(t, err)
	spec.Lease = -1
	create(t, r.own(t, spec))
	for _, h := range r.hosts {
		h.await(t, "keepalive "+agent.Forever.String(), 1)
	}
}
