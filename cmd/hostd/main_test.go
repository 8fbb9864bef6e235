package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/builtin"
	"github.com/castnet-io/castnet/internal/testkit"
)

// asHostd makes the test binary a hostd with its arguments.
const asHostd = "CASTNET_TEST_HOSTD"

func TestMain(m *testing.M) {
	proc.Main(append(builtin.Defs(), thiefDef())...)
	if os.Getenv(asHostd) != "" {
		os.Exit(run(os.Args[1:], os.Getenv, os.Stderr))
	}
	testkit.Main(m)
}

// site is a user's machine: its directories and its hostds.
type site struct {
	runtime, config, tmp string
	vars                 []string
}

func newSite(t *testing.T, vars ...string) site {
	t.Helper()
	s := site{runtime: t.TempDir(), config: t.TempDir(), tmp: t.TempDir(), vars: vars}
	require.NoError(t, os.Chmod(s.runtime, 0o700))
	return s
}

func (s site) getenv(key string) string {
	for _, e := range s.env() {
		if v, ok := strings.CutPrefix(e, key+"="); ok {
			return v
		}
	}
	return ""
}

func (s site) env() []string {
	return append(testkit.Environment(s.runtime, s.config, s.tmp, asHostd+"=1",
		"GORACE=atexit_sleep_ms=0"), s.vars...)
}

// localFile is the file through which other programs of the user find a hostd.
func (s site) localFile() string { return filepath.Join(s.runtime, "castnet", "local.json") }

// requireClean requires that no hostd left anything (HOSTD-1, HOSTD-2).
func (s site) requireClean(t *testing.T) {
	t.Helper()
	require.NoFileExists(t, s.localFile())
	left, err := os.ReadDir(s.tmp)
	require.NoError(t, err)
	require.Empty(t, left, "files in the temporary directory")
}

// line is one line of the log.
type line struct {
	Level, Message, Host, Bus, Allow, Connect, Labels, HTTP, Fingerprint, Join string
	Procs                                                                      int
	RunDir                                                                     string `json:"run_dir"`
	LocalFile                                                                  string `json:"local_file"`
	PageFile                                                                   string `json:"page_file"`
}

// daemon is a running hostd.
type daemon struct {
	*testkit.Process
	ready line
}

// spawn starts a hostd; it is killed with the test.
func (s site) spawn(t *testing.T, args ...string) *daemon {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env, cmd.Dir = s.env(), s.tmp
	return &daemon{Process: testkit.Start(t, cmd)}
}

// start is spawn, and the wait until it is ready.
func (s site) start(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := s.spawn(t, args...)
	d.ready = d.await(t, "hostd is ready")
	return d
}

// await returns the next line of the log with a beginning.
func (d *daemon) await(t *testing.T, message string) (l line) {
	t.Helper()
	text := d.Err.Find(t, `"message":"`+message)
	require.NoError(t, json.Unmarshal([]byte(text), &l), text)
	return l
}

// requireFailedStart runs a hostd and requires that it does not start. It prints the reason in one
// line; a second one shows usage.
func (s site) requireFailedStart(t *testing.T, args ...string) (code int, why string) {
	t.Helper()
	d := s.spawn(t, args...)
	code = d.Exit(t)
	lines := slices.DeleteFunc(strings.Split(strings.TrimSuffix(d.Err.String(), "\n"), "\n"),
		func(line string) bool {
			return strings.Contains(line, "killed an orphaned process") // that of another test may have died just now
		})
	why = strings.Join(lines, "\n")
	first, rest, more := strings.Cut(why, "\n")
	require.True(t, strings.HasPrefix(first, "hostd: "), "want one line that begins with hostd:, got:\n%s", why)
	require.True(t, !more || strings.HasPrefix(rest, "usage: ") && !strings.Contains(rest, "\n"),
		"want one line and usage, got:\n%s", why)
	return code, first
}

// readLocal is the record for other programs of the user.
func (s site) readLocal(t *testing.T) bus.LocalServer {
	t.Helper()
	l, err := bus.ReadLocal(s.localFile())
	require.NoError(t, err)
	return l
}
