package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// hostdMain is the tests' binary in the role of a hostd: a server and a discoverable host.
func hostdMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := playHostd(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "hostd:", err)
		return 1
	}
	return 0
}

func playHostd(ctx context.Context) error {
	if os.Getenv("HOSTD_FAILS") != "" {
		return fmt.Errorf("it does not want to")
	}
	if label := os.Getenv("HOSTD_LABEL"); label != "" {
		return playJoining(ctx, label)
	}
	srv, err := embed.Start(ctx, embed.Options{Token: "found"})
	if err != nil {
		return err
	}
	defer srv.Shutdown()
	_, stop, err := startHost(ctx, srv.URL(), "found", "own")
	if err != nil {
		return err
	}
	path, err := bus.LocalFile(os.Getenv)
	if err != nil {
		return err
	}
	if err := bus.WriteLocal(path,
		bus.LocalServer{URL: srv.URL(), Token: "found", PID: os.Getpid()}); err != nil {
		return err
	}
	<-ctx.Done()
	return errors.Join(inTime(stop), bus.RemoveLocal(path, os.Getpid()))
}

// playJoining is a hostd on a running server. It prints "ready" on stdout.
func playJoining(ctx context.Context, label string) error {
	o := bus.FromEnv(os.Getenv)
	_, stop, err := startHost(ctx, o.URL, o.Token, label)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return inTime(stop)
}

// inTime stops a process within its permitted time.
func inTime(stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	return stop(ctx)
}

// hostd starts a hostd of its own process, with a gateway, on the server of the cluster.
func (c *cluster) hostd(t *testing.T, label string) *testkit.Process {
	t.Helper()
	b := start(t, append(c.env, roleVar+"=hostd", "HOSTD_LABEL="+label))
	require.Equal(t, "ready", b.Out.Line(t))
	return b
}

// noBus is an environment without a bus, and with a hostd in PATH.
func noBus(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.Symlink(os.Args[0], filepath.Join(dir, "hostd")))
	return append(baseEnv(dir), "PATH="+dir)
}

func TestUp_startsAndStopsAMissingHostd(t *testing.T) {
	t.Parallel()
	env := noBus(t)
	b := start(t, env, "up", "-o", "ndjson", "--per-host", "gpu=2")
	up := decode[heldmesh.Started](t, b.Out.Line(t))
	require.Equal(t, []string{"own"}, up.Hosts)
	require.Contains(t, b.Err.String(), "found no bus: started")
	r := runClient(t, env, "procs", "demo", "-o", "json")
	require.Zero(t, r.code, r.err)
	procs := decode[[]inspect.Proc](t, r.out)
	require.Len(t, procs, 2)
	r = runClient(t, env, "cast", "demo", "counter", "add", "2", "--reduce", "sum")
	require.Equal(t, "4\n", r.out, r.err)
	require.Zero(t, exit(t, b, os.Interrupt), b.Err)
	for _, p := range procs {
		require.ErrorIs(t, syscall.Kill(p.PID, 0), syscall.ESRCH)
	}
	r = runClient(t, env, "hosts")
	require.Equal(t, cli.ExitConnection, r.code, "the hostd has ended, too: %s", r.out)
	require.Contains(t, r.err, "start a hostd")
}

func TestUp_reportsWhyItsHostdDidNotStart(t *testing.T) {
	t.Parallel()
	env := noBus(t)
	r := runClient(t, env, "up", "--no-hostd")
	require.Equal(t, cli.ExitConnection, r.code)
	require.Contains(t, r.err, "start a hostd, or name a server")
	p := start(t, append(env, "HOSTD_FAILS=1"), "up")
	require.Equal(t, cli.ExitFailure, p.Exit(t))
	require.Contains(t, p.Said(), "could not start: hostd: it does not want to")
	p = start(t, append(env, "PATH=/nowhere"), "up")
	require.Equal(t, cli.ExitConnection, p.Exit(t))
	require.Contains(t, p.Said(), "hostd is neither next to this program nor in PATH")
}
