package polyglot

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

func TestLiveMesh_acceptsCastsFromEveryLanguage(t *testing.T) {
	r := casting(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, *rig)
	}{
		{"the nats command casts", natsCasts},
		{"the nats command is answered as the vectors say", natsIsAnsweredAsTheVectorsSay},
		{"a gather travels as the packets say", gatherTravelsAsThePacketsSay},
		{"Node.js casts", nodeCasts},
		{"Python casts", pythonCasts},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, r) })
	}
}

// Each language runs its tests with its own runner.

func nodeCasts(t *testing.T, r *rig) {
	out, err := outputOf(t, 2*testkit.Patience, r.forLanguage(t, "js"), "node", "", node(t), "--test",
		"--test-concurrency=1", "--test-reporter=spec")
	require.NoError(t, err, out)
	require.Regexp(t, `tests \d\d`, out, "it ran none")
}

func pythonCasts(t *testing.T, r *rig) {
	out, err := outputOf(t, 2*testkit.Patience, r.forLanguage(t, "py"), "python", "", python(t), "-B", "-m",
		"unittest", "-v")
	require.NoError(t, err, out)
	require.Regexp(t, `Ran \d\d tests`, out, "it ran none")
}

// forLanguage is the environment of a language's tests. They kill procs of a mesh of their own.
func (r *rig) forLanguage(t *testing.T, language string) []string {
	t.Helper()
	doomed := "doomed-" + language
	r.up(t, doomed, "counter")
	out, err := outputOf(t, testkit.Patience, r.env, "", "", program(t, "castnet"), "procs", doomed,
		"--output", "ndjson")
	require.NoError(t, err, out)
	pids := make([]string, 4)
	for line := range strings.Lines(out) {
		var p struct{ Rank, PID int }
		require.NoError(t, json.Unmarshal([]byte(line), &p), line)
		pids[p.Rank] = strconv.Itoa(p.PID)
	}
	return append(r.env[:len(r.env):len(r.env)], "CASTNET_MESH="+r.counters.Mesh,
		"CASTNET_ACTOR="+r.counters.Actor,
		"CASTNET_DOOMED="+doomed, "CASTNET_PIDS="+strings.Join(pids, " "))
}
