package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// start starts a command. Ctrl-C ends it with the test.
func start(t *testing.T, env []string, args ...string) *testkit.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = env
	p := testkit.Start(t, cmd)
	t.Cleanup(func() {
		_ = p.Process.Signal(os.Interrupt) // fails when it has ended
		p.Exit(t)
	})
	return p
}

// exit sends a signal, and returns the exit code.
func exit(t *testing.T, p *testkit.Process, s os.Signal) int {
	t.Helper()
	p.Send(t, s)
	return p.Exit(t)
}

// up starts a mesh and holds it for the test.
func (c *cluster) up(t *testing.T, args ...string) (*testkit.Process, heldmesh.Started) {
	t.Helper()
	b := start(t, c.env, append([]string{"up", "-o", "ndjson"}, args...)...)
	r := decode[heldmesh.Started](t, b.Out.Line(t))
	for _, p := range decode[[]inspect.Proc](t, c.ok(t, "procs", r.Mesh, "-o", "json")) {
		c.procs = append(c.procs, p.PID)
	}
	return b, r
}

// kill ends the process of a rank.
func (c *cluster) kill(t *testing.T, mesh, region string) {
	t.Helper()
	all := decode[[]inspect.Proc](t, c.ok(t, "procs", mesh+"["+region+"]", "-o", "json"))
	require.Len(t, all, 1)
	require.NoError(t, syscall.Kill(all[0].PID, syscall.SIGKILL))
}
