package controller

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

func TestController_ownsActorsThroughTheirProcAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	echo := actor.NewType[*struct{}, int]("echo")
	def := echo.Define(func(ctx *actor.Context, bad int) (*struct{}, error) {
		if ctx.Point().Rank() == bad {
			return nil, errors.New("not this one")
		}
		return &struct{}{}, nil
	})
	r.join(t, 4, def)
	spec := r.spec
	var err error
	spec.Region, err = spec.Region.Slice("gpu", 1, 2)
	require.NoError(t, err)
	spec.Actors = &agent.ActorSpec{Name: "echoes", Type: "echo", Params: []byte{1}}
	ref := r.own(t, spec)
	create(t, ref)
	o := wait(t, ref, agent.Running)
	require.Equal(t, agent.Running, o[0].Status.Phase)
	require.Contains(t, o[1].Status.Reason, "not this one")
	_, err = agent.Restart.Call(t.Context(), ref, agent.RestartRequest{ID: idOf(t, ref)})
	require.ErrorContains(t, err, "restart their procs")
	arrives := func(gen int) error {
		_, err := agent.AwaitActor.Call(t.Context(), ref,
			agent.AwaitActorRequest{Mesh: spec.Procs.ID, Rank: 1, Gen: gen})
		return err
	}
	require.NoError(t, arrives(0), "it is there")
	later := make(chan error, 1)
	go func() { later <- arrives(1) }()
	o, err = agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Reason: "done"})
	require.NoError(t, err)
	require.Equal(t, agent.Status{Phase: agent.Stopped, Reason: "done"}, o[0].Status)
	require.Equal(t, agent.Failed, o[1].Status.Phase)
	require.NoError(t, <-later, "it never will be")

	spec.Actors = &agent.ActorSpec{Name: "abaci", Type: "abacus"}
	ref = r.own(t, spec)
	create(t, ref)
	o = wait(t, ref, agent.Running)
	last := o[len(o)-1]
	require.Equal(t, 2, last.First+last.Count)
	require.Contains(t, o[0].Status.Reason, `actor type "abacus" is not known`)
}

func TestController_answersUnneededRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.own(t, r.spec)
	_, err := agent.Ping.Call(t.Context(), ref, actor.None{})
	require.NoError(t, err)
	_, err = agent.Keepalive.Call(t.Context(), ref, agent.Lease{})
	require.NoError(t, err)
	_, err = agent.Logs.Call(t.Context(), ref, agent.LogsRequest{})
	require.ErrorContains(t, err, "want the agent of a host")
	o, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref)})
	require.NoError(t, err)
	require.Equal(t, one(4, agent.Initializing, ""), o, "never created: nothing to wait for")
	_, err = actor.Spawn(t.Context(), r.p, Type, "controller", Spec{})
	require.ErrorContains(t, err, "the mesh has no ID")
}
