package controller

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/internal/testkit"
)

// muted are the controller of actors in two procs, one in each, of which one can be kept from
// taking data.
type muted struct {
	*rig
	controller actor.Ref[agent.Agent]
	proc       *actor.Proc // that takes none, from when mute is called to when the function that it returns is
	mute       func() (hear func())
}

func newMuted(t *testing.T, lease time.Duration) *muted {
	m := &muted{rig: newRig(t)}
	echo := actor.NewType[*struct{}, actor.None]("echo")
	registry, err := actor.NewRegistry(
		echo.Define(func(*actor.Context, actor.None) (*struct{}, error) { return &struct{}{}, nil }))
	require.NoError(t, err)
	for rank := range 2 {
		p, router, err := proc.Join(t.Context(), proc.Options{Bus: m.bus(t), Registry: registry, Mesh: m.spec.Procs,
			Rank: rank, Log: zerolog.Nop()})
		require.NoError(t, err)
		closing(t, p, router)
		m.proc = p
	}
	m.mute = func() func() { return m.hold(t, m.proc) }
	spec := m.spec
	spec.Region, err = spec.Region.Slice("host", 0, 1)
	require.NoError(t, err)
	spec.Actors, spec.Lease = &agent.ActorSpec{Name: "echoes", Type: "echo", Params: []byte{0xa0}}, lease
	m.controller = m.own(t, spec)
	create(t, m.controller)
	require.Equal(t, one(2, agent.Running, ""), wait(t, m.controller, agent.Running))
	return m
}

// hold keeps a proc from taking data until the function that it returns is called.
func (r *rig) hold(t *testing.T, p *actor.Proc) (hear func()) {
	t.Helper()
	gate, entered := make(chan struct{}), make(chan struct{})
	held, _ := actor.OpenPortFunc(p, func(actor.None) error {
		close(entered)
		<-gate // on the data pump
		return nil
	}, func(error) {})
	require.NoError(t, held.Via(r.p).Send(t.Context(), actor.None{}))
	<-entered
	return func() { close(gate) }
}

func TestLease_procLeasesAreRenewedWhileDataIsBlocked_CTL13(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.spec.Lease = 3 * time.Second
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	for i, h := range r.hosts {
		defer r.hold(t, r.at[i])()
		h.await(t, "keepalive 3s", h.count("keepalive 3s")+2)
	}
}

func TestStop_actorsStopWhileDataIsBlocked_CTL13(t *testing.T) {
	t.Parallel()
	m := newMuted(t, 0)
	defer m.mute()()
	ctx := testkit.Soon(t)
	o, err := agent.Stop.Call(ctx, m.controller, agent.StopRequest{ID: idOf(t, m.controller), Reason: "done"})
	require.NoError(t, err)
	require.Equal(t, one(2, agent.Stopped, "done"), o)
}

func TestLease_actorLeasesAreRenewedWhileDataIsBlocked_CTL13(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	m := newMuted(t, lease)
	defer m.mute()()
	time.Sleep(lease + lease/4) // agents time leases by their own clock
	info, ok := m.proc.Actor("echoes")
	require.True(t, ok)
	require.Equal(t, actor.Running, info.Status, info.Reason)
}
