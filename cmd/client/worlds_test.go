package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// hostOf starts a host of a world.
func (c *cluster) hostOf(t *testing.T, label, world string, rank int) {
	t.Helper()
	h := c.host(t, label, func(o *host.Options) { o.RunDir = t.TempDir() })
	info, err := h.Info(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	joined, gone := make(chan struct{}, 64), make(chan struct{})
	go func() {
		defer close(gone)
		j := system.JoinRequest{World: world,
			Host: &system.HostJoin{ID: h.ID(), Rank: rank, Incarnation: info.Incarnation()}}
		system.KeepJoined(ctx, h.Proc(), j, func(_ system.JoinResponse, err error) {
			if err == nil {
				joined <- struct{}{}
			}
		})
	}()
	testkit.Close(t, func(context.Context) error {
		cancel()
		<-gone
		return nil
	})
	testkit.Next(t, joined)
}

func TestWorlds_canBeDeclaredListedAndDeleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	r := c.client(t, "worlds")
	require.Equal(t, cli.ExitNotFound, r.code)
	require.Contains(t, r.err, "no system controller answers")
	c.System(t, "s")
	c.hostOf(t, "n1", "train", 0)
	file := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte(
			"name: train\nshape: { replica: 2 }\nper-host: 2\ncommand: builtin\nlabels: { team: vision }\n"), 0o600))
	require.Equal(t, "WORLD  CHANGE  STATUS             MESH\ntrain  create  awaiting creation  -\n",
		c.ok(t, "plan", "-f", file))
	require.Regexp(t, `train  awaiting creation  .*  0      0:n1 +- +-`, c.ok(t, "worlds"))
	require.Regexp(t, `train  create  starting  train-`, c.ok(t, "apply", "-f", file))
	require.Eventually(t, func() bool {
		now := decode[[]system.WorldState](t, c.ok(t, "worlds", "train", "-o", "json"))
		return now[0].Status == system.StatusLive
	}, testkit.Patience, 20*time.Millisecond)
	require.Regexp(t, `train  live    .*  2/2    0:n1   team=vision  -`,
		c.ok(t, "worlds", "--label", "team=vision"))
	require.Empty(t, c.ok(t, "worlds", "--label", "team=other"))
	require.Regexp(t, `train  nothing  live`, c.ok(t, "apply", "-f", file, "--wait"))
	lonely := filepath.Join(t.TempDir(), "lonely.yaml")
	require.NoError(t, os.WriteFile(lonely,
		[]byte("name: lonely\nshape: x=1\nper-host: 1\ncommand: builtin\n"), 0o600))
	r = c.client(t, "apply", "-f", lonely, "--wait", "--timeout", "4s")
	require.Equal(t, cli.ExitTimeout, r.code)
	require.Contains(t, r.err, "not all worlds are live: lonely is starting") // and why, if there was time to ask
	require.Regexp(t, `lonely  create  starting`, r.out)
	c.eventually(t, func(r result) bool { return strings.Contains(r.err, "lonely-") },
		"wait", "lonely", "--for", "live", "--timeout", "1s")
	c.ok(t, "delete", "lonely")
	require.Regexp(t, `train-\w+ +live +running +live +2/2`, c.ok(t, "wait", "train", "--for", "live"))
	require.Regexp(t, `train  train-\w+/1.0  n1-\w+  alive`, c.ok(t, "where", "train/1"))
	require.Equal(t, cli.ExitNotFound, c.client(t, "where", "train/7").code)
	require.Equal(t, cli.ExitNotFound, c.client(t, "worlds", "other").code)
	c.worldIsAMesh(t)

	require.NoError(t, os.WriteFile(file,
		[]byte("name: new\nshape: x=1\nper-host: 1\ncommand: builtin\n---\nname: train\nshape: x=9\nper-host: "+
			"2\ncommand: builtin\n"), 0o600))
	r = c.client(t, "apply", "-f", file)
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, "world train already exists with shape replica=2")
	require.NotContains(t, c.ok(t, "worlds"), "new", "nothing is half-applied")
	r = c.client(t, "apply", "-f", file, "-f", file)
	require.Equal(t, cli.ExitUsage, r.code)
	require.Equal(t, "castnet: "+file+": world new is declared twice: want each world once\n", r.err)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Equal(t, "castnet: "+file+": no world in it: want name, shape, per-host and command\n",
		c.client(t, "plan", "-f", file).err)
	require.Contains(t, c.client(t, "adopt", "train").err, "it belongs to world train, which no program can own")

	require.Equal(t, "WORLD  STOPPED  ABORTED  SILENT\ntrain  2        0        -\n",
		c.ok(t, "delete", "train", "--reason", "done"))
	r = c.client(t, "delete", "nowhere")
	require.Equal(t, cli.ExitNotFound, r.code)
	require.Contains(t, r.err, "world nowhere: not found")
	require.Equal(t, cli.ExitUsage, c.client(t, "delete").code)
	require.Equal(t, cli.ExitUsage, c.client(t, "apply").code)
}

// worldIsAMesh runs all queries of meshes on the world train with two ranks and a host.
func (c *cluster) worldIsAMesh(t *testing.T) {
	t.Helper()
	require.Len(t, decode[[]inspect.Proc](t, c.ok(t, "procs", "train", "-o", "json")), 2)
	require.Equal(t, 2, strings.Count(c.ok(t, "procs"), "\ntrain-"))
	procs, err := c.Lookup(t.Context(), "train")
	require.NoError(t, err)
	_, err = mesh.SpawnActors(t.Context(), procs, actor.NewType[any, any]("counter"),
		mesh.ActorSpawnSpec[any]{Label: "counter", Params: 100, Uncontrolled: true})
	require.NoError(t, err)
	require.Equal(t, "105\n", c.ok(t, "call", "train[replica=1]", "counter", "add", "5"))
	require.Equal(t, "207\n", c.ok(t, "cast", "train", "counter", "add", "1", "--reduce", "sum"))
	c.shows(t, `train-\w+ is running: all its 2 ranks\n`, "explain", "train")
	v := saying(t, c, func(v inspect.View) bool { return v.Owner.Answering && v.World != nil },
		"mesh", "show", "train", "-o", "json")
	require.Equal(t, system.StatusLive, v.World.Status)
	require.Regexp(t, `/system$`, v.Owner.ID)
	require.Equal(t, []inspect.StatusRun{{Region: "*", Ranks: 2, Status: "running"}}, v.Statuses)
	c.shows(t, `(?m)^world +live for `, "mesh", "show", "train")
}

func TestExplain_namesTheHostThatAWorldLacks(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.System(t, "s")
	c.hostOf(t, "n1", "train", 1)
	c.hostOf(t, "n2", "train", 2)
	file := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte("name: train\nshape: x=3\nper-host: 2\ncommand: builtin\n"), 0o600))
	c.ok(t, "apply", "-f", file)
	x := c.explained(t, "train", func(x inspect.Explanation) bool {
		return strings.Contains(x.Answer,
			"1 running")
	})
	require.Contains(t, x.Answer, " is starting: of its 3 ranks 2 not-exist, 1 running")
	require.Equal(t, "running", x.Phase, "a world without some hosts is still running")
	require.Len(t, x.Causes, 1, "%+v", x)
	require.Equal(t, inspect.Cause{Kind: "host", Region: "x=0:2", Ranks: 2,
		Reason: "the world has no host with rank 0"}, x.Causes[0])
	require.Contains(t, x.Next[0], "it waits for missing procs")
	require.Equal(t, []string{"start a hostd with --world train --host-rank 0"}, x.Suggestions)
	require.Contains(t, c.ok(t, "worlds"), " 1:n1 2:n2(stands by) ")
	require.Regexp(t, `castnet: rank 0 of mesh train-\w+ has no host: see castnet explain train`,
		c.client(t, "where", "train/0").err)
	require.Regexp(t, `(?m)^\[x=0:2\] +2 +not-exist +no host has it$`, c.ok(t, "mesh", "show", "train"))
	r := c.client(t, "exec", "--hosts", "train[x=0]", "--", "true")
	require.Equal(t, cli.ExitNotFound, r.code)
	require.Equal(t, "castnet: exec: no host has a rank of train[x=0]\n", r.err)
	require.Equal(t, result{err: "no host has a rank of train[x=0]\n"}, c.client(t, "procs", "train[x=0]"))
	r = c.client(t, "exec", "train", "--", "true")
	require.Equal(t, "castnet: exec: [x=0:2]: no host has it\n  [x=2]: cannot run commands: start hostd with "+
		"--allow-exec, or set host.allow-exec: on\n", r.err)
	require.Empty(t, r.out)
	c.ok(t, "stop", "train")
	for _, w := range decode[[]system.WorldState](t, c.ok(t, "worlds", "-o", "json")) {
		require.Equal(t, system.StatusAwaiting, w.Status, "its hosts offer themselves again a moment later")
	}
}

func TestHosts_drainRefusesHostsOfAWorldUnlessForced(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.System(t, "s")
	c.hostOf(t, "n1", "train", 0)
	file := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte("name: train\nshape: x=2\nper-host: 2\ncommand: builtin\n"), 0o600))
	c.ok(t, "apply", "-f", file, "--wait")
	r := c.client(t, "hosts", "drain", "n1")
	require.Equal(t, cli.ExitFailure, r.code, r.err)
	require.Contains(t, r.err, "castnet: drain n1: world train ends without its procs there, which do not move\n")
	require.Contains(t, c.ok(t, "worlds"), " 2/2 ", "nothing was drained")
	require.Equal(t, "HOST  RESULT   PROCS\nn1    drained  2 ended\n",
		c.ok(t, "hosts", "drain", "n1", "--force"))
	require.Contains(t, c.ok(t, "procs", "--all"), "drained by its user")
	c.eventually(t, func(r result) bool {
		return strings.Contains(r.out, "[*] stopped: host n1 was drained by ") &&
			strings.Contains(r.out, "\nWhat to do:\n  start the procs of n1 again: stop its hostd (SIGTERM), and "+
				"start it with --world train --host-rank 0\n")
	}, "explain", "train")
	require.Contains(t, c.ok(t, "events"), "host.drain.attempt")
}

func TestWorlds_countRunningProcs(t *testing.T) {
	e := shape.Of("x", 3)
	w := system.WorldState{Shape: &e,
		Procs: []system.ProcState{{Health: system.HealthAlive},
			{Health: system.HealthAlive, Failed: []string{"worker"}}, {Health: system.HealthExpired}}}
	require.Equal(t, "2/3", formatProcs(w))
	w.Shape = nil
	require.Equal(t, "2", formatProcs(w))
}

// requireCompletions requires a completion. A completion ends after 1 s, with the candidates so
// far.
func (c *cluster) requireCompletions(t *testing.T, want string, args ...string) {
	t.Helper()
	c.eventually(t, func(r result) bool { return strings.Contains(r.out, want) },
		append([]string{"__complete"}, args...)...)
}

// Commands that need the procs of a world without any explain why it has none. Other commands work.
func TestWorlds_withoutProcsAreKnownToAllCommands(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1")
	c.System(t, "s")
	file := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte("name: train\nshape: { replica: 3 }\nper-host: 2\ncommand: builtin\n"), 0o600))
	c.ok(t, "apply", "-f", file)
	for _, args := range [][]string{{"procs", "train"}, {"cast", "train", "counter", "get"},
		{"exec", "train", "--", "true"}, {"logs", "train"}} {
		r := c.client(t, args...)
		require.Equal(t, cli.ExitNotFound, r.code, args)
		require.Contains(t, r.err, "world train has no procs so far: 0 of 3 procs have started", args)
	}
	x := decode[inspect.Explanation](t, c.ok(t, "explain", "train", "-o", "json"))
	require.Equal(t, "not-exist", x.Phase)
	require.Len(t, x.Causes, 2, "two hosts")
	require.Equal(t, []any{"the world has no host with rank 1", "replica=2"},
		[]any{x.Causes[1].Reason, x.Causes[1].Region})
	v := decode[inspect.View](t, c.ok(t, "mesh", "show", "train", "-o", "json"))
	require.Equal(t, system.StatusStarting, v.World.Status)
	require.Equal(t, []any{3, "replica=3", true}, []any{v.Ranks, v.Extent, v.Owner.Answering})
	for _, verb := range []string{"explain", "stop", "delete"} {
		c.requireCompletions(t, "train\n", verb, "tr")
	}
	require.NotContains(t, c.ok(t, "__complete", "cast", "tr"), "train\n", "no actor is there to complete")

	_, up := c.up(t, "demo", "--per-host", "gpu=2")
	require.Regexp(t, `demo  `+up.Mesh+`/1.0  n1-\w+  alive`, c.ok(t, "where", "demo/1"))
	require.Regexp(t, `demo  `+up.Mesh+`/0.0  n1-\w+  alive`, c.ok(t, "where", up.Mesh+"/0.0"))
	c.requireCompletions(t, "demo/0\ndemo/1\n", "where", "demo/")
	require.Equal(t, cli.ExitNotFound, c.client(t, "where", "demo/2").code)
	r := c.client(t, "where", "dmeo/0")
	require.Equal(t, cli.ExitNotFound, r.code)
	require.Equal(t, `castnet: dmeo/0: not found; mesh "dmeo" does not exist; there is `+up.Mesh+"\n", r.err)
	require.Equal(t, cli.ExitUsage, c.client(t, "where", "demo").code)
	require.Regexp(t, `train  0        0        -`, c.ok(t, "stop", "train"))
	require.Equal(t, cli.ExitNotFound, c.client(t, "explain", "train").code)
}
