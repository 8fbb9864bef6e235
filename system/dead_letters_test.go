package system_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// holder is an agent without automatic answers to probes.
type holder struct{}

var (
	holderType = actor.NewType[*holder, actor.None]("holder")
	probe      = actor.NewEndpoint[*holder, actor.None, actor.None](agent.Ping.Name())
)

// joinHolder starts a proc that joins a world, and returns its received probes.
func (r *rig) joinHolder(t *testing.T, world string) (p *actor.Proc,
	probes chan *actor.Deferred[actor.None]) {
	t.Helper()
	mesh, err := subjects.ParseMeshID(r.declare(t, spec(world, shape.Of("x", 1), 1)).Mesh)
	require.NoError(t, err)
	probes = make(chan *actor.Deferred[actor.None], 64)
	o := actor.Options{ID: subjects.ProcID{Mesh: mesh}, Bus: r.Open(t)}
	p, _ = testproc.Start(t, r.Server, testproc.Options{Options: o}, holderType.Define(
		func(*actor.Context, actor.None) (*holder, error) { return new(holder), nil },
		probe.Handle(func(_ *holder, ctx *actor.Context, _ actor.None) (actor.None, error) {
			probes <- actor.Defer[actor.None](ctx)
			return actor.None{}, nil
		}),
	))
	_, err = p.Spawn(testkit.Soon(t),
		actor.SpawnSpec{Type: holderType.Name(), Name: agent.Name, Params: actor.None{}})
	require.NoError(t, err)
	_, err = system.Join.Call(testkit.Soon(t), r.system(t),
		system.JoinRequest{World: world, Proc: &system.ProcJoin{ID: p.ID()}})
	require.NoError(t, err)
	r.await(t, world, "world.live")
	return p, probes
}

// probed waits for the next probe.
func probed(t *testing.T, probes <-chan *actor.Deferred[actor.None]) *actor.Deferred[actor.None] {
	t.Helper()
	select {
	case d := <-probes:
		return d
	case <-testkit.Soon(t).Done():
		t.Fatal("the controller sends no probe")
		return nil
	}
}

// The proc ends during a probe: the probe has reached it and gets no answer.
func TestWorlds_probeWithUnknownFateIsResent_WORLD9(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		require.NoError(t, r.keys.LoadEnv(
			func(key string) string { return map[string]string{"CASTNET_WORLD_PROC_TIMEOUT": "5m"}[key] }))
		r.serve(t, "s")
		p, probes := r.joinHolder(t, "w")
		require.NoError(t, system.SuspectProc.Send(testkit.Soon(t), r.system(t), p.ID()))
		probed(t, probes)
		require.NoError(t, p.Close(testkit.Soon(t)))
		require.Contains(t, r.await(t, "w", "world.unhealthy").Reason, "/0.0: a message to it was returned")
	})
}

// A proc may answer a probe, and a message to it may be lost after the probe left.
func TestWorlds_reportDuringAProbeTriggersAnother_WORLD9(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		require.NoError(t, r.keys.LoadEnv(
			func(key string) string { return map[string]string{"CASTNET_WORLD_PROC_TIMEOUT": "5m"}[key] }))
		r.serve(t, "s")
		p, probes := r.joinHolder(t, "w")
		ctl := r.system(t)
		require.NoError(t, system.SuspectProc.Send(testkit.Soon(t), ctl, p.ID()))
		first := probed(t, probes)
		require.NoError(t, system.SuspectProc.Send(testkit.Soon(t), ctl, p.ID()))
		require.Equal(t, system.StatusLive, r.snapshot(t, "w").Status,
			"the controller knows the second one by now")
		first.Reply(actor.None{}, nil)
		probed(t, probes).Reply(actor.None{}, nil)
		require.Equal(t, system.StatusLive, r.snapshot(t, "w").Status)
	})
}
