package integration

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testpage"
)

// inCheckout are the pages whose commands begin in the checkout. Those of the others begin in an
// empty folder above it, with the programs on PATH.
var inCheckout = []string{"README.md", "casting.md", "external-nats.md"}

// elsewhere are the pages that need more than the programs of castnet. Other tests run the first.
var elsewhere = []string{"any-nats-client.md", "performance.md"} // integration/polyglot, none

// TestPages_eachCommandPrintsWhatThePageSays runs the commands of each page in their order.
func TestPages_eachCommandPrintsWhatThePageSays(t *testing.T) {
	skipIfListened(t, "the pages start servers of their own")
	t.Parallel()
	nats := natsCLI(t)
	for _, path := range pages(t) {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			repo, err := filepath.Abs("..")
			require.NoError(t, err)
			// No other test uses a port of this address, so the ports of the page are free.
			address := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
			page := testpage.Read(t, path, "make -C castnet", "make", "../castnet", repo, "../hello",
				filepath.Join(home, "hello"), "127.0.0.1", address)
			require.Equal(t, slices.Contains(elsewhere, name), page.Needs != "", page.Needs)
			if page.Needs != "" {
				return
			}
			r := &testpage.Reader{Dir: home, Env: readerEnvironment(t, nats, repo)}
			if slices.Contains(inCheckout, name) {
				r.Dir = repo
			}
			r.Run(t, page)
		})
	}
}

// pages are the paths of the README and of each page in docs.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	return append(all, "../README.md")
}

// readerEnvironment holds nothing of the user's own settings except those of the go command. In
// the end no process with this environment is left.
func readerEnvironment(t *testing.T, nats, repo string) []string {
	t.Helper()
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	maker, err := exec.LookPath("make")
	require.NoError(t, err)
	c := &cluster{tmp: t.TempDir()}
	temporary, err := os.MkdirTemp(c.tmp, "")
	require.NoError(t, err)
	built := filepath.Join(repo, "bin")
	t.Cleanup(func() { c.awaitNoProcess(t, built) })
	tools := t.TempDir()
	// make does not repeat what this test is part of.
	testkit.WriteProgram(t, filepath.Join(tools, "make"), fmt.Appendf(nil, `#!/bin/sh
for goal; do case $goal in test|build) ;; *) goals="$goals $goal" ;; esac; done
[ -z "$goals" ] || exec %s -o build -C %s $goals
`, maker, repo))
	path := strings.Join([]string{tools, os.Getenv(binVariable), filepath.Dir(nats), os.Getenv("PATH")}, ":")
	env := slices.DeleteFunc(testkit.Environment(t.TempDir(), t.TempDir(), temporary),
		func(e string) bool { return strings.HasPrefix(e, "PATH=") })
	return append(env, "PATH="+path,
		"CORPUS="+filepath.Join(repo, "shape"),                     // make demo counts fewer words
		"GOENV="+filepath.Join(config, "go", "env"), "GOSUMDB=off", // the modules are in the cache
		// Half of a link is its debug information; a third of a compilation is to inline and to
		// collect garbage.
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -ldflags=-w -gcflags=-l", "GOGC=400")
}

// TestPages_goFragmentsArePartsOfTests finds each block of Go without a file in a tested program.
func TestPages_goFragmentsArePartsOfTests(t *testing.T) {
	t.Parallel()
	indent := regexp.MustCompile(`(?m)^[\t ]+`)
	var tested strings.Builder
	for _, tree := range []string{"../mesh", "../cast", "../examples", "../otelcastnet"} {
		require.NoError(t, filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			tested.WriteString(indent.ReplaceAllString(string(text), ""))
			return err
		}))
	}
	for _, path := range pages(t) {
		for _, fragment := range testpage.Read(t, path).Fragments() {
			require.True(t, strings.Contains(tested.String(), indent.ReplaceAllString(fragment, "")),
				"%s: no test and no example has this fragment:\n%s", path, fragment)
		}
	}
}
