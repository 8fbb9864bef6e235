package controller

import (
	"testing"

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
