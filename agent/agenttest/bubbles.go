package agenttest

import (
	"testing"
	"testing/synctest"
)

// TestAgentInBubbles is TestAgent with each test in a bubble of testing/synctest, in virtual time.
// The fixture has no socket and no process.
func TestAgentInBubbles(t *testing.T, fresh func(t *testing.T) Fixture) {
	for _, e := range exercises() {
		t.Run(e.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { e.test(t, fresh, true) })
		})
	}
}
