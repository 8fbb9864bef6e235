package polyglot

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

// block is one fenced block of the page, with its output.
type block struct {
	language, text string
	stays          bool   // it runs until the end: there is a comment before it
	prints         string // the block behind it, of no language
}

// The address on the page. The test replaces it by a free one.
const pageAddress = "127.0.0.1:4333"

func TestPage_eachCommandPrintsTheDocumentedOutput(t *testing.T) { // PLY-4
	source, err := os.ReadFile(repo(t, "docs", "any-nats-client.md"))
	require.NoError(t, err)
	page := strings.ReplaceAll(string(source), pageAddress, freeAddress(t))
	env := environment(t)
	ran := map[string]int{}
	for _, b := range blocksOf(t, page) {
		ran[b.language]++
		switch b.language {
		case "sh":
			env = append(env, exports(b.text)...)
			script := "cd " + repo(t) + "\n" + b.text
			if b.stays {
				script = "cd " + repo(t) + " && exec " + b.text
			}
			b.run(t, env, "bash", "-euo", "pipefail", "-c", script)
		case "js":
			// The imports are found from here.
			dir, err := os.MkdirTemp(filepath.Join("node", "node_modules"), ".page-") //nolint:usetesting // a given place
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			b.run(t, env, node(t), b.file(t, dir, "page.mjs"))
		case "py":
			standIn := append(env[:len(env):len(env)], "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+
				repo(t, "integration", "polyglot", "python", "standin")+":"+repo(t, "integration", "polyglot", "python"))
			b.run(t, standIn, python(t), b.file(t, t.TempDir(), "page.py"))
		case "text": // a form, which is no command
		default:
			require.Fail(t, "a block of a language that this test does not run", "%q:\n%s", b.language, b.text)
		}
	}
	require.GreaterOrEqual(t, ran["sh"], 10)
	require.NotZero(t, ran["js"])
	require.NotZero(t, ran["py"])
}

// file writes the block as a program.
func (b block) file(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(b.text), 0o600))
	return path
}

// clock is the time stamp of the nats command before a line.
var clock = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `)

// run runs the block, perhaps after a build, and looks for each output line of the page, in any
// order, because headers have none. … stands for anything. For a block with `stays` only the last
// line counts.
func (b block) run(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	if b.stays {
		lines := strings.Split(b.prints, "\n")
		started(t, env, strings.Trim(lines[len(lines)-1], "…"), name, args...)
		return
	}
	out, err := outputOf(t, 5*testkit.Patience, env, "", "", name, args...)
	require.NoError(t, err, "%s\n%s", b.text, out)
	out = clock.ReplaceAllString(out, "")
	for line := range strings.SplitSeq(b.prints, "\n") {
		pattern := "(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$"
		require.Regexp(t, pattern, out, "the page says that this prints %q:\n%s", line, b.text)
	}
}

// exports are the variables set by a block for later ones.
func exports(script string) (all []string) {
	for line := range strings.SplitSeq(script, "\n") {
		if set, ok := strings.CutPrefix(line, "export "); ok {
			all = append(all, strings.Fields(set)...)
		}
	}
	return all
}

func blocksOf(t *testing.T, page string) (all []block) {
	fence := regexp.MustCompile("(?ms)^(<!-- stays -->\n)?```([a-z]*)\n(.*?)\n```$")
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		if m[2] == "" {
			require.NotEmpty(t, all, "a block of output without a command:\n%s", m[3])
			require.Empty(t, all[len(all)-1].prints, "two blocks of output:\n%s", m[3])
			all[len(all)-1].prints = m[3]
			continue
		}
		all = append(all, block{language: m[2], text: m[3], stays: m[1] != ""})
	}
	require.Len(t, all, strings.Count(page, "\n```")/2-outputs(all), "blocks without an end or a reader")
	return all
}

func outputs(all []block) (n int) {
	for _, b := range all {
		if b.prints != "" {
			n++
		}
	}
	return n
}

// freeAddress is an unused address on loopback.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
