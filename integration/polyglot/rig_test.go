package polyglot

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

const secret = "polyglot"

// rig is a server, two hosts, and meshes of the extent host=2,gpu=2.
type rig struct {
	env      []string
	counters meshUp
}

// meshUp is the report of `castnet up` on a mesh.
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
		started(t, r.env, "hostd is ready", program(t, "hostd"), "--nats", server.URL(), "--label", label,
			"--log-format", "json")
	}
	return r
}

// casting is a rig with the meshes for the casts of all languages.
func casting(t *testing.T) *rig {
	r := newRig(t)
	r.counters = r.up(t, "demo", "counter")
	r.up(t, "parrots", "echo")
	return r
}

// up holds a mesh until the test ends.
func (r *rig) up(t *testing.T, name, actor string, more ...string) (m meshUp) {
	t.Helper()
	line := started(t, r.env, `"kind":"up"`, program(t, "castnet"),
		append([]string{"up", name, "--per-host", "gpu=2", "--actor", actor,
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

// environment is the environment of programs: nothing of the user's own settings, and some more
// variables.
func environment(t *testing.T, more ...string) []string {
	t.Helper()
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	// The go command keeps its build settings, or it would link again the programs built by make.
	env := testkit.Environment(t.TempDir(), t.TempDir(), os.TempDir(),
		"GOENV="+filepath.Join(config, "go", "env"))
	return append(env, more...)
}

// started runs a program until the test ends. It must then stop without an error. started returns
// the first output line with a text in it.
func started(t *testing.T, env []string, with string, name string, args ...string) string {
	t.Helper()
	cmd, said := exec.Command(name, args...), &testkit.Transcript{}
	cmd.Env, cmd.Stdout, cmd.Stderr = env, said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := testkit.Start(t, cmd)
	t.Cleanup(func() {
		p.Send(t, syscall.SIGTERM)
		code := p.Exit(t)
		how, _ := p.ProcessState.Sys().(syscall.WaitStatus)
		byTerm := how.Signaled() && how.Signal() == syscall.SIGTERM // which ends programs that are not ours
		require.True(t, code == 0 || byTerm, "%s ended with %s: %s", name, p.ProcessState, p.Said())
	})
	return p.Out.Find(t, with)
}

// outputOf runs a program to its end, within a time, and returns its output.
func outputOf(t *testing.T, within time.Duration, env []string, dir, stdin, name string,
	args ...string) (string, error) {
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
