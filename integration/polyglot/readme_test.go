package polyglot

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

func TestREADME_eachCommandWorks(t *testing.T) { // PLY-4
	page, err := os.ReadFile(repo(t, "README.md"))
	require.NoError(t, err)
	env := environment(t)
	ready := map[string]string{"bin/hostd": "hostd is ready",
		"bin/castnet up demo --per-host gpu=4 --actor counter": "demo-"}
	said := map[string]string{}
	var scripts []string
	for _, b := range blocksOf(t, string(page)) {
		switch {
		case b.language != "sh":
		case b.stays:
			with, known := ready[b.text]
			require.True(t, known, "unknown ready line of %q", b.text)
			startedUntil(t, b.text != "bin/hostd", env, with, "bash", "-euo", "pipefail", "-c",
				"cd "+repo(t)+" && exec "+b.text)
			delete(ready, b.text)
		default:
			script := strings.ReplaceAll(b.text, "make test", ":") // which runs the tests that CI has run already
			out, err := outputOf(t, 5*testkit.Patience, env, "", "", "bash", "-euo", "pipefail", "-c",
				"cd "+repo(t)+"\n"+script)
			require.NoError(t, err, "%s\n%s", b.text, out)
			scripts = append(scripts, b.text)
			said[b.text] = out
		}
	}
	require.Empty(t, ready, "the README starts everything that later blocks need")
	require.GreaterOrEqual(t, len(scripts), 5, scripts)
	require.Equal(t, "make demo\nmake test", scripts[0], "nothing comes before these")
	for script, want := range map[string]string{
		"make demo": "its owner knows after", "go run ./examples/hello": "gpus 0 and 1 of all hosts count 2",
		"bin/castnet hosts": "demo", "bin/nats req": "Castnet-Answered: 4", "bin/castnet stop demo": "",
	} {
		found := false
		for text, out := range said {
			if strings.Contains(text, script) {
				found = true
				require.Contains(t, out, want, text)
			}
		}
		require.True(t, found, script)
	}
}
