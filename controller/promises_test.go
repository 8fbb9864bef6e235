package controller

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/agenttest"
)

func TestController_keepsThePromisesOfAgents(t *testing.T) {
	t.Parallel()
	agenttest.Exercise(t, func(t *testing.T) agenttest.Subject {
		r := newRig(t)
		ref := r.own(t, r.spec)
		return agenttest.Subject{
			Agent: ref, Client: r.p,
			New: func(*testing.T) agent.Creation { return agent.Creation{} },
			ID:  func(agent.Creation) string { return r.spec.id() },
		}
	})
}

func TestAGT4_aRestartThatNamesAnotherMeshRestartsNothing(t *testing.T) {
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	for _, other := range []string{"", "other-0000000000000", r.spec.id() + "0"} {
		o, err := agent.Restart.Call(t.Context(), ref, agent.Restarting{ID: other})
		require.NoError(t, err)
		require.Empty(t, o)
	}
	require.Equal(t, one(4, agent.Running, ""), wait(t, ref, agent.Running))
	for _, h := range r.hosts {
		require.Zero(t, h.stops())
	}
}
