// Package agenttest is the lifecycle protocol as a suite of tests: what package agent promises, shown of
// an agent, whatever its resources are. Host agents, proc agents and controllers pass it.
//
// # Use
//
//	agenttest.Exercise(t, func(t *testing.T) agenttest.Subject {
//		rig := newRig(t)
//		return agenttest.Subject{Agent: rig.agent(), Client: rig.client, New: rig.spec, …}
//	})
//
// Each test gets a fresh subject and has 30 s. What a subject cannot do is left out by leaving the
// field nil, and is not tested.
package agenttest
