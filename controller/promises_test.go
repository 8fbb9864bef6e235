package controller

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/agenttest"
)

func TestController_fulfilsTheAgentContract(t *testing.T) { // AGT-9
	t.Parallel()
	agenttest.TestAgentInBubbles(t, func(t *testing.T) agenttest.Fixture {
		r := newRig(t)
		ref := r.own(t, r.spec)
		return agenttest.Fixture{
			Agent: ref, Client: r.p,
			New: func(*testing.T) agent.CreateRequest { return agent.CreateRequest{} },
			ID:  func(agent.CreateRequest) string { return r.spec.id() },
		}
	})
}

func TestRestart_wrongMeshRestartsNothing_AGT3(t *testing.T) {
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	for _, other := range []string{"", "other-0000000000000", r.spec.id() + "0"} {
		o, err := agent.Restart.Call(t.Context(), ref, agent.RestartRequest{ID: other})
		require.NoError(t, err)
		require.Empty(t, o)
	}
	require.Equal(t, one(4, agent.Running, ""), wait(t, ref, agent.Running))
	for _, h := range r.hosts {
		require.Zero(t, h.stopCount())
	}
}
