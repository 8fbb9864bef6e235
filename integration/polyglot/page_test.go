package polyglot

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// block is one fenced block of the page, with what it prints.
type block struct {
	language, text string
	stays          bool   // it runs until the end: there is a comment before it
	prints         string // the block behind it, of no language
}

// The address that the page uses: here it is one that is free.
const pageAddress = "127.0.0.1:4333"

func TestPage_eachCommandPrintsWhatItSays(t *testing.T) { // PLY-4
	source, err := os.ReadFile(repo(t, "docs", "any-nats-client.md"))
	require.NoError(t, err)
	page := strings.ReplaceAll(string(source), pageAddress, freeAddress(t))
	env := environment(t)
	ran := map[string]int{}
	for _, b := range blocksOf(t, page) {
		ran[b.language]++
		switch {
		case b.language == "sh" && b.stays:
			lines := strings.Split(b.prints, "\n")
			started(t, env, strings.Trim(lines[len(lines)-1], "…"), "bash", "-c", "cd "+repo(t)+" && exec "+b.text)
		case b.language == "sh":
			env = append(env, exports(b.text)...)
			b.check(t, env, repo(t), "bash", "-euo", "pipefail", "-c", b.text)
		case b.language == "js":
			// Where its imports are found.
			dir, err := os.MkdirTemp(filepath.Join("node", "node_modules"), ".page-")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			b.runFile(t, env, dir, node(t), "page.mjs")
		case b.language == "py":
			standIn := append(env, "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+repo(t, "integration", "polyglot", "python", "standin")+":"+
				repo(t, "integration", "polyglot", "python"))
			b.runFile(t, standIn, t.TempDir(), python(t), "page.py")
		case b.language == "text": // a form, which is no command
		default:
			require.Fail(t, "a block of a language that this test does not run", "%q:\n%s", b.language, b.text)
		}
	}
	require.GreaterOrEqual(t, ran["sh"], 10)
	require.NotZero(t, ran["js"])
	require.NotZero(t, ran["py"])
}

// runFile runs a program out of a file.
func (b block) runFile(t *testing.T, env []string, dir, interpreter, name string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(b.text), 0o600))
	b.check(t, env, dir, interpreter, name)
}

// clock is what the nats command puts before a line.
var clock = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `)

// check runs a command, which may be one that builds, and looks for each line that the page says it prints. … stands for anything. Their
// order is not looked at: that of headers is any.
func (b block) check(t *testing.T, env []string, dir, name string, args ...string) {
	t.Helper()
	out, err := outputOf(t, 5*patience, env, dir, "", name, args...)
	require.NoError(t, err, "%s\n%s", b.text, out)
	out = clock.ReplaceAllString(out, "")
	for line := range strings.SplitSeq(b.prints, "\n") {
		pattern := "(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$"
		require.Regexp(t, pattern, out, "the page says that this prints %q:\n%s", line, b.text)
	}
}

// exports are the variables that a block sets for those after it.
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
	require.Len(t, all, strings.Count(page, "\n```")/2-outputs(all), "blocks that are not closed or read")
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

// freeAddress is one on loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
