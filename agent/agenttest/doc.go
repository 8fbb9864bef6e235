// Package agenttest is a test suite for the promises of package agent. It works on any agent,
// whatever its resources are. Host agents, proc agents and controllers pass it.
//
// # Use
//
//	agenttest.TestAgent(t, func(t *testing.T) agenttest.Fixture {
//		rig := newRig(t)
//		return agenttest.Fixture{Agent: rig.agent(), Client: rig.client, New: rig.spec, …}
//	})
//
// TestAgentInBubbles is for fixtures without sockets and processes: it runs in virtual time.
//
// Each test gets a fresh fixture and has 30 s. If a fixture leaves a field nil, the suite skips the
// tests that need it.
package agenttest
