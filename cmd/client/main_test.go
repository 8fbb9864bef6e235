package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/gateway"
	"github.com/castnet-io/castnet/internal/builtin"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
)

// roleVar makes the tests' own binary the client.
const roleVar = "CASTNET_CLIENT_TEST"

// TestMain makes the tests' own binary play all parts, because hosts launch it too: a proc with the
// built-in actors and a talker, the client, or (by its name) a hostd.
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
	rank       = actor.NewEndpoint[*talker, actor.None, int]("rank",
		actor.NewReducer("first", func(a, _ int) (int, error) { return a, nil }))
	hang  = actor.NewEndpoint[*talker, actor.None, actor.None]("hang")
	block = actor.NewEndpoint[*talker, actor.None, actor.None]("block")
	spin  = actor.NewEndpoint[*talker, actor.None, int]("spin")
)

// talker prints.
type talker struct{}

func talkerDef() actor.Def {
	return talkerType.Define(func(*actor.Context, actor.None) (*talker, error) { return &talker{}, nil },
		talk.Handle(func(_ *talker, ctx *actor.Context, what string) (actor.None, error) {
			_, err := fmt.Println(what, "from", ctx.Point().Rank())
			return actor.None{}, err
		}),
		grumble.Handle(func(_ *talker, _ *actor.Context, what string) (actor.None, error) {
			_, err := fmt.Fprintln(os.Stderr, what)
			return actor.None{}, err
		}),
		crash.Handle(func(*talker, *actor.Context, actor.None) (actor.None, error) { panic("crash test") }),
		null.Handle(func(*talker, *actor.Context, actor.None) (*int, error) { return nil, nil }),
		rank.Handle(func(_ *talker, ctx *actor.Context, _ actor.None) (int,
			error) {
			return ctx.Point().Rank(), nil
		}),
		hang.Handle(func(_ *talker, ctx *actor.Context, _ actor.None) (actor.None, error) {
			actor.Defer[actor.None](ctx) // never answers
			return actor.None{}, nil
		}),
		block.Handle(func(_ *talker, ctx *actor.Context, _ actor.None) (actor.None, error) {
			<-ctx.Done()
			return actor.None{}, nil
		}),
		spin.Handle(func(_ *talker, ctx *actor.Context, _ actor.None) (n int, err error) {
			for end := time.Now().Add(10 * time.Millisecond); time.Now().Before(end); {
				n++
			}
			return n, spin.Send(ctx, actor.Self[*talker](ctx), actor.None{}) // for ever
		}))
}

// startHost starts a host and its gateway, and returns a function that stops both.
func startHost(ctx context.Context, url, token, label string, change ...func(*host.Options)) (*host.Host,
	func(context.Context) error, error) {
	o := bus.Options{URL: url, Token: token, ConnectTimeout: testkit.Patience}
	named := o
	named.Name = "host/" + label
	b, err := bus.Open(ctx, named)
	if err != nil {
		return nil, nil, err
	}
	ho := host.Options{
		Label: label, Bus: b, Settings: agent.BusSettings{URL: url, Token: token}, Log: zerolog.Nop(),
		AllowUser: true, Builtin: []string{"proc"}, Version: "test",
	}
	for _, f := range change {
		f(&ho)
	}
	h, err := host.Start(ctx, ho)
	if err != nil {
		return nil, nil, errors.Join(err, b.Close(ctx))
	}
	g, err := gateway.Start(ctx, gateway.Options{Label: label, Bus: &o})
	if err != nil {
		return nil, nil, errors.Join(err, h.Close(ctx), b.Close(ctx))
	}
	h.SetGateway(g.Announced)
	return h, func(ctx context.Context) error {
		return errors.Join(g.Close(ctx), h.Close(ctx),
			b.Close(ctx))
	}, nil
}

// cluster is a server and hosts in the tests' own process.
type cluster struct {
	*testmesh.Cluster
	env   []string
	leave []func() // ends a host each
	procs []int    // that must be gone in the end
}

func newCluster(t *testing.T, labels ...string) *cluster {
	t.Helper()
	return newClusterOn(t, nil, labels...)
}

// newClusterOn is a cluster on a server with options.
func newClusterOn(t *testing.T, server []testmesh.Option, labels ...string) *cluster {
	t.Helper()
	c := &cluster{}
	t.Cleanup(func() {
		for _, pid := range c.procs {
			require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "a proc was left")
		}
	})
	c.Cluster = testmesh.Start(t, server...)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	c.env = append(baseEnv(dir), "NATS_URL="+c.Server.URL(), "NATS_TOKEN="+c.Server.Token())
	for _, label := range labels {
		c.host(t, label)
	}
	return c
}

// host starts a host.
func (c *cluster) host(t *testing.T, label string, change ...func(*host.Options)) *host.Host {
	t.Helper()
	h, stop, err := startHost(t.Context(), c.Server.URL(), c.Server.Token(), label, change...)
	require.NoError(t, err)
	c.leave = append(c.leave, testkit.Close(t, stop))
	return h
}

// baseEnv is an environment without settings of the machine.
func baseEnv(dir string) []string {
	return []string{
		roleVar + "=client", "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir(),
		"XDG_RUNTIME_DIR=" + dir, "XDG_CONFIG_HOME=" + dir, "CASTNET_DELIVERY_NO_RESPONDER_TIMEOUT=100ms",
		"CASTNET_BUS_CONNECT_TIMEOUT=" + testkit.Patience.String(), "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"),
	}
}

// result is the outcome of one run of the client.
type result struct {
	out, err string
	code     int
}

// client runs a command to its end.
func (c *cluster) client(t *testing.T, args ...string) result {
	t.Helper()
	return runClient(t, c.env, args...)
}

// runClient runs a command to its end, in this process. A command needs a process of its own
// (start) if a signal ends it, or if it starts a hostd.
func runClient(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return runOn(t, env, false, args...)
}

// runOn runs a command with a terminal or a file as its stderr.
func runOn(t *testing.T, env []string, terminal bool, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Patience)
	defer cancel()
	var out, stderr testkit.Transcript // a logger writes from other goroutines
	getenv := func(key string) string {
		for _, v := range slices.Backward(env) {
			if value, is := strings.CutPrefix(v, key+"="); is {
				return value
			}
		}
		return ""
	}
	printer := &output.Printer{Format: output.Table, Stdout: &out, Stderr: &stderr, ErrTTY: terminal}
	code := run(ctx, &app.App{Getenv: getenv, Printer: printer}, args)
	require.NoError(t, ctx.Err(), "client %v did not end: %s", args, stderr.String())
	return result{out.String(), stderr.String(), code}
}

// ok runs a command, requires success, and returns its results. A host that takes more than a second
// to answer is named with exit code 4: on a busy machine ok runs the command again.
func (c *cluster) ok(t *testing.T, args ...string) string {
	t.Helper()
	r := c.answered(t, args...)
	require.Zero(t, r.code, "client %v: %s", args, r.err)
	return r.out
}

// answered runs a command again as long as a host is slow to answer.
func (c *cluster) answered(t *testing.T, args ...string) result {
	t.Helper()
	r := c.client(t, args...)
	for range 10 {
		if r.code != cli.ExitPartial || !strings.Contains(r.err, "hosts did not answer") {
			break
		}
		r = c.client(t, args...)
	}
	return r
}

// decode parses a document printed by a command.
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
