package polyglot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/embed"
)

const (
	patience = 30 * time.Second // for what takes milliseconds on a machine that is not busy
	secret   = "polyglot"
)

// rig is a server, two hosts, and meshes of the extent host=2,gpu=2.
type rig struct {
	env      []string
	counters meshUp
}

// meshUp is what `client up` says of a mesh.
type meshUp struct {
	Kind, Mesh, Extent, Actor string
	Ranks                     int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server, err := embed.Start(t.Context(), embed.Options{Token: secret})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	r := &rig{env: environment(t, "NATS_URL="+server.URL(), "NATS_TOKEN="+secret)}
	for _, label := range []string{"a", "b"} {
		started(t, r.env, "hostd is ready", program(t, "hostd"), "--nats", server.URL(), "--label", label, "--log-format", "json")
	}
	return r
}

// casting is a rig with the meshes that all languages cast to.
func casting(t *testing.T) *rig {
	r := newRig(t)
	r.counters = r.up(t, "demo", "counter")
	r.up(t, "parrots", "echo")
	return r
}

// up holds a mesh until the test ends.
func (r *rig) up(t *testing.T, name, actor string, more ...string) (m meshUp) {
	t.Helper()
	line := started(t, r.env, `"kind":"up"`, program(t, "client"), append([]string{"up", name, "--per-host", "gpu=2", "--actor", actor,
		"--no-hostd", "--output", "ndjson"}, more...)...)
	require.NoError(t, json.Unmarshal([]byte(line), &m), line)
	require.Equal(t, 4, m.Ranks, line)
	return m
}

// getenv reads the environment of the rig.
func (r *rig) getenv(key string) string {
	for _, v := range r.env {
		if value, ok := strings.CutPrefix(v, key+"="); ok {
			return value
		}
	}
	return ""
}

// environment is what programs get: nothing of the user's own settings, and what is given.
func environment(t *testing.T, more ...string) []string {
	t.Helper()
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	// The go command keeps the settings it builds with, or it would link anew what make has built.
	env := []string{"GOENV=" + filepath.Join(config, "go", "env"), "XDG_RUNTIME_DIR=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir(), "NO_COLOR=1", "LC_ALL=C.UTF-8"}
	for _, v := range os.Environ() {
		if key, _, _ := strings.Cut(v, "="); key == "PATH" || key == "HOME" || key == "XDG_CACHE_HOME" || strings.HasPrefix(key, "GO") {
			env = append(env, v)
		}
	}
	return append(env, more...)
}

// byTerm is the end of a program that does not handle SIGTERM.
const byTerm = "signal: terminated"

// started runs a program until the test ends, when it must stop in peace, and returns the first line that
// it says with a text in it.
func started(t *testing.T, env []string, with string, name string, args ...string) string {
	t.Helper()
	return startedUntil(t, false, env, with, name, args...)
}

// startedUntil is started; a program that may end has ended well when the test ends.
func startedUntil(t *testing.T, mayEnd bool, env []string, with string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	said := &transcript{}
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = io.MultiWriter(in, said), io.MultiWriter(in, said)
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		in.Close()
		ended <- err
	}()
	found, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		defer close(found)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), with) && len(found) == 0 {
				found <- lines.Text()
			}
		}
		_, _ = io.Copy(io.Discard, out) // after a line that is too long: the program must not block
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); !mayEnd || !errors.Is(err, os.ErrProcessDone) {
			require.NoError(t, err, "%s has ended: %s", name, said)
		}
		select {
		case err := <-ended:
			if err != nil && err.Error() != byTerm { // which ends programs that are not ours
				require.NoError(t, err, "%s: %s", name, said)
			}
		case <-time.After(patience):
			require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
			<-ended
			t.Errorf("%s did not stop: %s", name, said)
		}
		<-read
	})
	select {
	case line, ok := <-found:
		require.True(t, ok, "%s has ended: %s", name, said)
		return line
	case <-time.After(patience):
		require.Fail(t, "it took too long", "%s never said %q: %s", name, with, said)
		return ""
	}
}

// outputOf runs a program to its end, within time, and returns what it says.
func outputOf(t *testing.T, within time.Duration, env []string, dir, stdin, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir, cmd.Stdin = env, dir, strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		require.Fail(t, "it took too long", "%v: %s", cmd.Args, out)
	}
	return string(out), err
}

// transcript is what a process has said so far.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
