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
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast/gateway"
	"github.com/castnet-io/castnet/internal/cli"
)

// hostdMain is the tests' binary in the role of a hostd: a server and a host that can be found.
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
	stop, err := startHost(ctx, srv.URL(), "found", "own")
	if err != nil {
		return err
	}
	path, err := bus.LocalFile(os.Getenv)
	if err != nil {
		return err
	}
	if err := bus.WriteLocal(path, bus.Local{URL: srv.URL(), Token: "found", PID: os.Getpid()}); err != nil {
		return err
	}
	<-ctx.Done()
	if err := stop(); err != nil {
		return err
	}
	return bus.RemoveLocal(path, os.Getpid())
}

// playJoining is a hostd on a server that is there, with a gateway. It says "ready" on stdout.
func playJoining(ctx context.Context, label string) error {
	o := bus.FromEnv(os.Getenv)
	stop, err := startHost(ctx, o.URL, o.Token, label)
	if err != nil {
		return err
	}
	g, err := gateway.Start(ctx, gateway.Options{Label: label, Bus: &o})
	if err != nil {
		return errors.Join(err, stop())
	}
	fmt.Println("ready")
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(g.Close(last), stop())
}

// hostd starts a hostd of its own process, with a gateway, on the server of the cluster.
func (c *cluster) hostd(t *testing.T, label string) *background {
	t.Helper()
	b := start(t, append(c.env, roleVar+"=hostd", "HOSTD_LABEL="+label))
	require.Equal(t, "ready", b.next(t))
	return b
}

// hang stops a process until resume, or the end of the test.
func (b *background) hang(t *testing.T) (resume func()) {
	t.Helper()
	require.NoError(t, b.cmd.Process.Signal(syscall.SIGSTOP))
	resume = func() { _ = b.cmd.Process.Signal(syscall.SIGCONT) } // it fails when the process has ended
	t.Cleanup(resume)
	return resume
}

// noBus is an environment without a bus, and with a hostd in PATH.
func noBus(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.Symlink(os.Args[0], filepath.Join(dir, "hostd")))
	return append(baseEnv(dir), "PATH="+dir)
}

func TestUp_startsAHostWhereThereIsNoneAndStopsItInTheEnd(t *testing.T) {
	t.Parallel()
	env := noBus(t)
	b := start(t, env, "up", "-o", "ndjson", "--per-host", "gpu=2")
	up := decode[upRecord](t, b.next(t))
	require.Equal(t, []string{"own"}, up.Hosts)
	require.Contains(t, b.stderr.String(), "no bus was found: started")
	r := runClient(t, env, "procs", "demo", "-o", "json")
	require.Zero(t, r.code, r.err)
	procs := decode[[]procRecord](t, r.out)
	require.Len(t, procs, 2)
	r = runClient(t, env, "cast", "demo", "counter", "add", "2", "--reduce", "sum")
	require.Equal(t, "4\n", r.out, r.err)
	require.Zero(t, b.exit(t, os.Interrupt), b.stderr)
	for _, p := range procs {
		require.ErrorIs(t, syscall.Kill(p.PID, 0), syscall.ESRCH)
	}
	r = runClient(t, env, "hosts")
	require.Equal(t, cli.ExitConnection, r.code, "the hostd has ended, too: %s", r.out)
	require.Contains(t, r.err, "start a hostd")
}

func TestUp_saysWhyItsHostdDidNotStart(t *testing.T) {
	t.Parallel()
	env := noBus(t)
	r := runClient(t, env, "up", "--no-hostd")
	require.Equal(t, cli.ExitConnection, r.code)
	require.Contains(t, r.err, "start a hostd, or name a server")
	r = runClient(t, append(env, "HOSTD_FAILS=1"), "up")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, "could not start: hostd: it does not want to")
	r = runClient(t, append(env, "PATH=/nowhere"), "up")
	require.Equal(t, cli.ExitConnection, r.code)
	require.Contains(t, r.err, "hostd is neither next to this program nor in PATH")
}
