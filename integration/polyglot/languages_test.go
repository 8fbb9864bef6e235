package polyglot

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each language runs the tests that it has, with its own runner.

func TestNode_castsToALiveMesh(t *testing.T) {
	r := newRig(t)
	out, err := outputOf(t, 2*patience, r.forLanguages(), "node", "", node(t), "--test", "--test-concurrency=1", "--test-reporter=spec")
	require.NoError(t, err, out)
	require.Regexp(t, `tests \d\d`, out, "it ran none")
}

func TestPython_castsToALiveMesh(t *testing.T) {
	r := newRig(t)
	out, err := outputOf(t, 2*patience, r.forLanguages(), "python", "", python(t), "-B", "-m", "unittest", "-v")
	require.NoError(t, err, out)
	require.Regexp(t, `Ran \d\d tests`, out, "it ran none")
}

// forLanguages is the environment that their tests read.
func (r *rig) forLanguages() []string {
	return append(r.env[:len(r.env):len(r.env)], "CASTNET_MESH="+r.counters.Mesh, "CASTNET_ACTOR="+r.counters.Actor)
}
