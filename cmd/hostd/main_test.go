package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/builtin"
	"github.com/castnet-io/castnet/internal/testkit"
)

// asHostd makes the test binary a hostd with the arguments it is given.
const asHostd = "CASTNET_TEST_HOSTD"

// patience bounds what must happen; only a failing test uses it up.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	proc.Main(builtin.Defs()...)
	if os.Getenv(asHostd) != "" {
		os.Exit(run(os.Args[1:], os.Getenv, os.Stderr))
	}
	testkit.Main(m)
}

// site is a user's machine: its directories, and the hostds that run there.
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
	return append([]string{
		asHostd + "=1", "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0",
		"XDG_RUNTIME_DIR=" + s.runtime, "XDG_CONFIG_HOME=" + s.config, "TMPDIR=" + s.tmp,
	}, s.vars...)
}

// localFile is where other programs of the user find a hostd.
func (s site) localFile() string { return filepath.Join(s.runtime, "castnet", "local.json") }

// requireClean says that no hostd left anything (HOSTD-1, HOSTD-2).
func (s site) requireClean(t *testing.T) {
	t.Helper()
	require.NoFileExists(t, s.localFile())
	left, err := os.ReadDir(s.tmp)
	require.NoError(t, err)
	require.Empty(t, left, "files in the temporary directory")
}

// line is one line of the log.
type line struct {
	Level, Message, Host, Bus, Allow, Connect, Labels, HTTP string
	Procs                                                   int
	RunDir                                                  string `json:"run_dir"`
	LocalFile                                               string `json:"local_file"`
}

// daemon is a running hostd.
type daemon struct {
	cmd   *exec.Cmd
	ready line
	lines chan line

	mu   sync.Mutex
	text strings.Builder
	done chan struct{}
}

// spawn starts a hostd; it is killed with the test.
func (s site) spawn(t *testing.T, args ...string) *daemon {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	d := &daemon{cmd: exec.Command(self, args...), lines: make(chan line, 1024), done: make(chan struct{})}
	d.cmd.Env, d.cmd.Dir = s.env(), s.tmp
	r, w, err := os.Pipe()
	require.NoError(t, err)
	d.cmd.Stderr = w
	require.NoError(t, d.cmd.Start())
	require.NoError(t, w.Close())
	var reader sync.WaitGroup
	reader.Go(func() { d.read(r) })
	go func() {
		_ = d.cmd.Wait() // ProcessState says it
		close(d.done)
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.done
		reader.Wait()
		require.NoError(t, r.Close())
	})
	return d
}

func (d *daemon) read(r io.Reader) {
	defer close(d.lines)
	for sc := bufio.NewScanner(r); sc.Scan(); {
		d.mu.Lock()
		d.text.WriteString(sc.Text() + "\n")
		d.mu.Unlock()
		var l line
		if json.Unmarshal(sc.Bytes(), &l) == nil {
			d.lines <- l
		}
	}
}

func (d *daemon) stderr() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// start is spawn, and the wait until it is ready.
func (s site) start(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := s.spawn(t, args...)
	d.ready = d.await(t, "hostd is ready")
	return d
}

// await returns the next line of the log that begins so.
func (d *daemon) await(t *testing.T, message string) line {
	t.Helper()
	for timeout := time.After(patience); ; {
		select {
		case l, ok := <-d.lines:
			require.True(t, ok, "hostd ended without saying %q:\n%s", message, d.stderr())
			if strings.HasPrefix(l.Message, message) {
				return l
			}
		case <-timeout:
			require.FailNow(t, "hostd did not say "+message, d.stderr())
		}
	}
}

// exit waits for the end of hostd and returns its code; -1 is a signal.
func (d *daemon) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-d.done:
	case <-time.After(patience):
		require.FailNow(t, "hostd does not end", d.stderr())
	}
	for range d.lines { // until its last word is read
	}
	return d.cmd.ProcessState.ExitCode()
}

func (d *daemon) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, d.cmd.Process.Signal(sig))
}

func (d *daemon) stop(t *testing.T) {
	t.Helper()
	d.signal(t, syscall.SIGTERM)
	require.Zero(t, d.exit(t), d.stderr())
}

// fails runs a hostd that must not start: it says why in one line, a second one shows usage.
func (s site) fails(t *testing.T, args ...string) (code int, why string) {
	t.Helper()
	d := s.spawn(t, args...)
	code = d.exit(t)
	lines := slices.DeleteFunc(strings.Split(strings.TrimSuffix(d.stderr(), "\n"), "\n"), func(line string) bool {
		return strings.Contains(line, "an earlier host left it") // that of another test may have died just now
	})
	why = strings.Join(lines, "\n")
	first, rest, more := strings.Cut(why, "\n")
	require.True(t, strings.HasPrefix(first, "hostd: "), "want one line that begins with hostd:, got:\n%s", why)
	require.True(t, !more || strings.HasPrefix(rest, "usage: ") && !strings.Contains(rest, "\n"), "want one line and usage, got:\n%s", why)
	return code, first
}

// soon is the test's context with patience.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// readLocal is what other programs of the user find.
func (s site) readLocal(t *testing.T) bus.Local {
	t.Helper()
	l, err := bus.ReadLocal(s.localFile())
	require.NoError(t, err)
	return l
}
