package worlds_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// holder is an agent that answers no probe by itself.
type holder struct{}

var (
	holderType = actor.NewType[*holder, actor.None]("holder")
	probe      = actor.NewEndpoint[*holder, actor.None, actor.None](agent.Ping.Name())
)

// joinHolder starts a proc that has joined a world, with the probes that reach it.
func (r *rig) joinHolder(t *testing.T, world string) (p *actor.Proc, probes chan *actor.Deferred[actor.None]) {
	t.Helper()
	mesh, err := subjects.ParseMeshID(r.declare(t, spec(world, shape.Of("x", 1), 1)).Mesh)
	require.NoError(t, err)
	probes = make(chan *actor.Deferred[actor.None], 64)
	registry, err := actor.NewRegistry(holderType.Made(
		func(*actor.Context, actor.None) (*holder, error) { return new(holder), nil },
		probe.By(func(_ *holder, ctx *actor.Context, _ actor.None) (actor.None, error) {
			probes <- actor.Defer[actor.None](ctx)
			return actor.None{}, nil
		}),
	))
	require.NoError(t, err)
	p, err = actor.NewProc(t.Context(), actor.Options{ID: subjects.ProcID{Mesh: mesh}, Bus: bustest.Open(t, r.srv), Registry: registry})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	_, err = p.Spawn(soon(t), actor.Spawning{Type: holderType.Name(), Name: agent.Name, Params: actor.None{}})
	require.NoError(t, err)
	_, err = worlds.Join.Call(soon(t), r.system(t), worlds.Joining{World: world, Proc: &worlds.JoiningProc{ID: p.ID()}})
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
	case <-soon(t).Done():
		t.Fatal("the controller sends no probe")
		return nil
	}
}

// The proc ends while it is probed, so the probe has reached it and is answered by nobody.
func TestWorlds_aProbeWhoseFateIsUnknownIsSentAgain_WORLD9(t *testing.T) {
	r := newRig(t, store)
	require.NoError(t, r.keys.From(func(key string) string { return map[string]string{"CASTNET_WORLD_SILENCE": "5m"}[key] }))
	r.serve(t, "s")
	p, probes := r.joinHolder(t, "w")
	require.NoError(t, worlds.Returned.Post(soon(t), r.system(t), p.ID()))
	probed(t, probes)
	require.NoError(t, p.Close(soon(t)))
	require.Contains(t, r.await(t, "w", "world.unhealthy").Reason, "/0.0: a message to it came back")
}

// A proc that answers a probe may have been lost after the probe had left.
func TestWorlds_aReportDuringAProbeIsProbedToo_WORLD9(t *testing.T) {
	r := newRig(t, store)
	require.NoError(t, r.keys.From(func(key string) string { return map[string]string{"CASTNET_WORLD_SILENCE": "5m"}[key] }))
	r.serve(t, "s")
	p, probes := r.joinHolder(t, "w")
	system := r.system(t)
	require.NoError(t, worlds.Returned.Post(soon(t), system, p.ID()))
	first := probed(t, probes)
	require.NoError(t, worlds.Returned.Post(soon(t), system, p.ID()))
	require.Equal(t, worlds.Live, r.snapshot(t, "w").Status, "the controller has heard of the second one by now")
	first.Reply(actor.None{}, nil)
	probed(t, probes).Reply(actor.None{}, nil)
	require.Equal(t, worlds.Live, r.snapshot(t, "w").Status)
}
