package integration

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
)

// tutorialBlock is a fenced block of docs/tutorial.md. A comment before it names its file, or says
// `stays`.
var tutorialBlock = regexp.MustCompile("(?ms)^(?:<!-- (stays|file \\S+) -->\n)?```(sh|go|)\n(.*?\n)```$")

// TestTutorial_eachCommandPrintsWhatThePageSays runs the blocks of the page in their order, in one
// folder.
func TestTutorial_eachCommandPrintsWhatThePageSays(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/tutorial.md")
	require.NoError(t, err)
	repo, err := filepath.Abs("..")
	require.NoError(t, err)
	// No other test uses a port of this address, so the port stays free.
	own := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	free, err := net.Listen("tcp", own+":0")
	require.NoError(t, err)
	require.NoError(t, free.Close())
	page := strings.NewReplacer(
		"make -C castnet build\n", "", // TestMain has built it
		"../castnet", repo,
		"127.0.0.1:4222", free.Addr().String(),
	).Replace(string(text))
	r := &reader{home: t.TempDir(), env: tutorialEnvironment(t)}
	blocks := tutorialBlock.FindAllStringSubmatch(page, -1)
	require.Len(t, blocks, strings.Count(page, "\n```")/2, "blocks without an end or a reader")
	printed := ""
	for _, b := range blocks {
		mark, language, body := b[1], b[2], b[3]
		path, isFile := strings.CutPrefix(mark, "file ")
		switch {
		case isFile:
			require.NoError(t, os.WriteFile(filepath.Join(r.home, "tally", path), []byte(body), 0o600))
		case mark == "stays":
			r.start(t, body)
		case language == "sh":
			require.Empty(t, printed, "output missing on the page")
			printed = r.run(t, body)
		default:
			require.Equal(t, body, printed)
			printed = ""
		}
	}
	require.Empty(t, printed, "output missing on the page")
	require.NoDirExists(t, filepath.Join(r.home, "tally"))
}

// tutorialEnvironment holds nothing of the user's own settings except those of the go command.
func tutorialEnvironment(t *testing.T) []string {
	t.Helper()
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	return testkit.Environment(t.TempDir(), t.TempDir(), t.TempDir(),
		"GOENV="+filepath.Join(config, "go", "env"), "GOSUMDB=off", // the modules are in the cache
		// Half of a link is its debug information; a third of a compilation is to inline and to
		// collect garbage.
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -ldflags=-w -gcflags=-l", "GOGC=400")
}

// reader is a person at a terminal, with the page.
type reader struct {
	home  string // the folder above the reader's module
	env   []string
	state string // commands that restore the folder and variables of the terminal
}

// run runs a block in the first terminal, and returns its stdout.
func (r *reader) run(t *testing.T, block string) string {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	cmd := exec.Command("bash", "-euo", "pipefail", "-c",
		r.state+block+"{ export -p; echo cd \"$PWD\"; } > "+state)
	said := &testkit.Transcript{}
	cmd.Dir, cmd.Env, cmd.Stderr = r.home, r.env, said
	out, err := cmd.Output()
	require.NoError(t, err, "%s\n%s%s", block, out, said)
	after, err := os.ReadFile(state)
	require.NoError(t, err)
	r.state = string(after)
	return string(out)
}

// start runs a hostd in a terminal of its own, until the test ends.
func (r *reader) start(t *testing.T, block string) {
	t.Helper()
	cmd, said := exec.Command("bash", "-c", "exec "+block), &testkit.Transcript{}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = filepath.Join(r.home, "tally"), r.env, said, said
	p := testkit.Start(t, cmd)
	t.Cleanup(func() { p.Stop(t) })
	p.Out.Find(t, "hostd is ready")
}
