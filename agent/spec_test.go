package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

func TestActorSpec_everyFieldChangesTheFingerprint(t *testing.T) {
	owner, err := subjects.ParseActorID("client-000000000000c/0.0/controller-000000000000d")
	require.NoError(t, err)
	spec := agent.ActorSpec{Name: "counters", Type: "counter", Params: []byte{1}, Owner: owner}
	seen := map[string]bool{}
	for _, change := range []func(*agent.ActorSpec){
		func(*agent.ActorSpec) {},
		func(s *agent.ActorSpec) { s.Name = "counter" },
		func(s *agent.ActorSpec) { s.Type = "abacus" },
		func(s *agent.ActorSpec) { s.Params = []byte{2} },
		func(s *agent.ActorSpec) { s.Params = nil },
	} {
		other := spec
		change(&other)
		f, err := other.Fingerprint()
		require.NoError(t, err)
		require.False(t, seen[f], "%+v", other)
		seen[f] = true
	}
	again, err := spec.Fingerprint()
	require.NoError(t, err)
	require.True(t, seen[again])
	spec.Owner.Name = "controller-000000000000e"
	again, err = spec.Fingerprint()
	require.NoError(t, err)
	require.True(t, seen[again], "a later owner has the same fingerprint")
	_, err = agent.ActorSpec{Name: "counters", Type: "counter"}.Fingerprint()
	require.ErrorContains(t, err, "incomplete spec")
}
