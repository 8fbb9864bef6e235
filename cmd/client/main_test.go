package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/builtin"
	"github.com/castnet-io/castnet/internal/testkit"
)

// roleVar makes the tests' own binary the client.
const roleVar = "CASTNET_CLIENT_TEST"

// TestMain makes the tests' own binary, which hosts launch too, everything the tests need: a proc
// with the built-in actors and a talker, the client, or (by its name) a hostd.
func TestMain(m *testing.M) {
	proc.Main(append(builtin.Defs(), talkerDef())...)
	switch {
	case filepath.Base(os.Args[0]) == "hostd", os.Getenv(roleVar) == "hostd":
		os.Exit(hostdMain())
	case os.Getenv(roleVar) == "client":
		main()
	}
	testkit.Main(m)
}

var (
	talkerType = actor.NewType[*talker, actor.None]("talker")
	talk       = actor.NewEndpoint[*talker, string, actor.None]("talk")
	grumble    = actor.NewEndpoint[*talker, string, actor.None]("grumble")
	crash      = actor.NewEndpoint[*talker, actor.None, actor.None]("crash")
	null       = actor.NewEndpoint[*talker, actor.None, *int]("null")
	rank       = actor.NewEndpoint[*talker, actor.None, int]("rank", actor.NewReducer("first", func(a, _ int) (int, error) { return a, nil }))
	hang       = actor.NewEndpoint[*talker, actor.None, actor.None]("hang")
)

// talker prints.
type talker struct{}

func talkerDef() actor.Def {
	return talkerType.Made(func(*actor.Context, actor.None) (*talker, error) { return &talker{}, nil },
		talk.By(func(_ *talker, ctx *actor.Context, what string) (actor.None, error) {
			_, err := fmt.Println(what, "from", ctx.Point().Rank())
			return actor.None{}, err
		}),
		grumble.By(func(_ *talker, _ *actor.Context, what string) (actor.None, error) {
			_, err := fmt.Fprintln(os.Stderr, what)
			return actor.None{}, err
		}),
		crash.By(func(*talker, *actor.Context, actor.None) (actor.None, error) { panic("crash test") }),
		null.By(func(*talker, *actor.Context, actor.None) (*int, error) { return nil, nil }),
		rank.By(func(_ *talker, ctx *actor.Context, _ actor.None) (int, error) { return ctx.Point().Rank(), nil }),
		hang.By(func(_ *talker, ctx *actor.Context, _ actor.None) (actor.None, error) {
			actor.Defer[actor.None](ctx) // never answers
			return actor.None{}, nil
		}))
}

// startHost starts a server where there is none, and a host on it.
func startHost(ctx context.Context, url, token, label string) (func() error, error) {
	return startLabelledHost(ctx, url, token, label, nil)
}

func startLabelledHost(ctx context.Context, url, token, label string, labels map[string]string) (func() error, error) {
	o := bus.Options{URL: url, Token: token, Name: "host/" + label}
	b, err := bus.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	h, err := host.Start(ctx, host.Options{
		Label: label, Bus: b, Settings: agent.BusSettings{URL: url, Token: token}, Log: zerolog.Nop(),
		AllowUser: true, Builtin: []string{"proc"}, Version: "test", Labels: labels,
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			return err
		}
		return b.Close(ctx)
	}, nil
}

// cluster is a server and hosts in the tests' own process.
type cluster struct {
	env   []string
	url   string
	stop  []func() error
	procs []int
}

func newCluster(t *testing.T, labels ...string) *cluster {
	t.Helper()
	srv, err := embed.Start(t.Context(), embed.Options{Token: "secret"})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	c := &cluster{url: srv.URL(), env: append(baseEnv(dir), "NATS_URL="+srv.URL(), "NATS_TOKEN=secret")}
	for _, label := range labels {
		stop, err := startHost(t.Context(), srv.URL(), "secret", label)
		require.NoError(t, err)
		c.stop = append(c.stop, stop)
	}
	t.Cleanup(func() {
		for _, stop := range c.stop {
			require.NoError(t, stop())
		}
		for _, pid := range c.procs {
			require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "a proc was left")
		}
	})
	return c
}

// baseEnv is an environment in which nothing of the machine's own is found.
func baseEnv(dir string) []string {
	return []string{
		roleVar + "=client", "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir(),
		"XDG_RUNTIME_DIR=" + dir, "XDG_CONFIG_HOME=" + dir, "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"),
	}
}

// result is what one run of the client left.
type result struct {
	out, err string
	code     int
}

// client runs a command to its end.
func (c *cluster) client(t *testing.T, args ...string) result {
	t.Helper()
	return runClient(t, c.env, args...)
}

func runClient(t *testing.T, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = env
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "client %v did not end: %s", args, stderr.String())
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return result{out.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// ok runs a command that must succeed, and returns its results.
func (c *cluster) ok(t *testing.T, args ...string) string {
	t.Helper()
	r := c.client(t, args...)
	require.Zero(t, r.code, "client %v: %s", args, r.err)
	return r.out
}

// decode reads a document that a command printed.
func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// decodeLines reads one document a line.
func decodeLines[T any](t *testing.T, text string) (all []T) {
	t.Helper()
	for line := range strings.Lines(text) {
		all = append(all, decode[T](t, line))
	}
	return all
}
