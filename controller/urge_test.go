package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
)

// muted are the controller of actors in two procs, one in each. One of these can be kept from data.
type muted struct {
	*rig
	controller actor.Ref[agent.Agent]
	proc       *actor.Proc // that takes none, from when mute is called to when the function that it returns is
	mute       func() (hear func())
}

func newMuted(t *testing.T, lease time.Duration) *muted {
	m := &muted{rig: newRig(t)}
	echo := actor.NewType[*struct{}, actor.None]("echo")
	m.proc = m.join(t, 2,
		echo.Define(func(*actor.Context, actor.None) (*struct{}, error) { return &struct{}{}, nil }))[1]
	m.mute = func() func() { return testproc.Hold(t, m.proc, m.p) }
	var err error
	spec := m.spec
	spec.Region, err = spec.Region.Slice("host", 0, 1)
	require.NoError(t, err)
	spec.Actors, spec.Lease = &agent.ActorSpec{Name: "echoes", Type: "echo", Params: []byte{0xa0}}, lease
	m.controller = m.own(t, spec)
	create(t, m.controller)
	require.Equal(t, one(2, agent.Running, ""), wait(t, m.controller, agent.Running))
	return m
}

func TestLease_procLeasesAreRenewedWhileDataIsBlocked_CTL2(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.spec.Lease = 3 * time.Second
		ref := r.own(t, r.spec)
		create(t, ref)
		wait(t, ref, agent.Running)
		for i, h := range r.hosts {
			defer testproc.Hold(t, r.at[i], r.p)()
			h.await(t, "keepalive 3s", h.count("keepalive 3s")+2)
		}
	})
}

func TestStop_actorsStopWhileDataIsBlocked_CTL2(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		m := newMuted(t, 0)
		defer m.mute()()
		ctx := testkit.Soon(t)
		o, err := agent.Stop.Call(ctx, m.controller, agent.StopRequest{ID: idOf(t, m.controller), Reason: "done"})
		require.NoError(t, err)
		require.Equal(t, one(2, agent.Stopped, "done"), o)
	})
}

func TestLease_actorLeasesAreRenewedWhileDataIsBlocked_CTL2(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		const lease = 4 * time.Second
		m := newMuted(t, lease)
		defer m.mute()()
		time.Sleep(lease + lease/4)
		info, ok := m.proc.Actor("echoes")
		require.True(t, ok)
		require.Equal(t, actor.Running, info.Status, info.Reason)
	})
}
