package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestMeshRestart_restartsARegionAndReportsEachRank(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	p := c.own(t, mesh.SpawnSpec{Name: "demo", PerHost: shape.Of("gpu", 3)})
	pids := func() (all []int) {
		for _, r := range decode[[]inspect.Proc](t, c.ok(t, "procs", "demo", "-o", "json")) {
			all = append(all, r.PID)
		}
		return all
	}
	before := pids()
	var got []restartRecord
	for line := range strings.Lines(c.ok(t, "mesh", "restart", "demo[gpu=1:3]", "--reason", "new data",
		"-o", "ndjson")) {
		got = append(got, decode[restartRecord](t, line))
	}
	require.Len(t, got, 2)
	for i, r := range got {
		require.Positive(t, r.Took)
		require.Equal(t, restartRecord{
			Mesh: p.ID().String(), Rank: i + 1, Point: []string{"host=0,gpu=1", "host=0,gpu=2"}[i], Host: r.Host,
			Status: "running", Took: r.Took,
		}, r)
	}
	after := pids()
	require.Equal(t, before[0], after[0])
	require.NotEqual(t, before[1:], after[1:])
	require.Regexp(t, `(?m)^demo-\w+ +2 +host=0,gpu=2 +a +running +[\d.]+m?s +-$`,
		c.ok(t, "mesh", "restart", "demo", "--max-unavailable", "3"))

	var ranks []int
	for _, r := range decode[[]restartRecord](t,
		c.ok(t, "hosts", "restart", "a", "--max-unavailable", "3", "-o", "json")) {
		ranks = append(ranks, r.Rank)
	}
	require.ElementsMatch(t, []int{0, 1, 2}, ranks)
	require.Equal(t, cli.ExitNotFound, c.client(t, "hosts", "restart", "nobody").code)
	require.Equal(t, cli.ExitUsage, c.client(t, "hosts", "restart").code)

	require.Equal(t, cli.ExitUsage, c.client(t, "mesh", "restart", "demo", "--max-unavailable", "0").code)
	require.Equal(t, cli.ExitNotFound, c.client(t, "mesh", "restart", "nobody").code)
}

func TestMeshRestart_ofARegionWithoutALiveRankIsAnError(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.up(t, "--per-host", "gpu=2", "--restart", "temporary")
	c.kill(t, "demo", "gpu=1")
	saying(t, c, func(v inspect.View) bool { return v.Owner.Answering && len(v.Failures) == 1 },
		"mesh", "show", "demo", "-o", "json")
	r := c.client(t, "mesh", "restart", "demo[gpu=1]")
	require.Equal(t, result{code: cli.ExitFailure,
		err: "castnet: restart demo[gpu=1]: no rank of it runs: `castnet explain demo` says why\n"}, r)
}

func TestMeshRestart_refusesToLoseActors(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.System(t, "s")
	up := decode[heldmesh.Started](t, c.ok(t, "spawn", "demo", "--per-host", "2", "--detach", "-o", "ndjson"))
	pids := func() (all []int) {
		for _, r := range decode[[]inspect.Proc](t, c.ok(t, "procs", "demo", "-o", "json")) {
			all = append(all, r.PID)
		}
		return all
	}
	require.Equal(t, "8\n", c.ok(t, "cast", "demo", "counter", "add", "2", "--reduce", "sum"))
	before := pids()
	for region, command := range map[string][]string{
		"*": {"mesh", "restart", "demo"}, "host=1,proc=0": {"mesh", "restart", "demo[host=1,proc=0]"},
		"host=0,proc=*": {"hosts", "restart", "a"}, "host=1,proc=*": {"hosts", "restart", "a", "b"},
	} {
		r := c.client(t, command...)
		require.Equal(t, cli.ExitFailure, r.code, "%v: %s", command, r.err)
		require.Empty(t, r.out)
		require.Contains(t, r.err, "restart "+up.Mesh+": its actors would be lost:\n  "+up.Actor+" on ["+region+
			"]: no owner restarts them\n", "%v", command)
		require.Contains(t, r.err, "nothing was restarted: --force restarts the procs without", "%v", command)
		require.Contains(t, r.err, "--restart transient")
	}
	require.Equal(t, before, pids())
	require.Equal(t, "8\n", c.ok(t, "cast", "demo", "counter", "get", "--reduce", "sum"))
	shown := c.shows(t, `(?m)^lease +1m0s: `, "mesh", "show", "demo")
	require.NotContains(t, shown, "none")

	c.ok(t, "mesh", "restart", "demo[host=1]", "--force")
	c.shows(t, "^"+up.Mesh+` is running: all its 4 ranks, with no actors on \[host=1,proc=\*\]\n$`,
		"explain", "demo")
	c.shows(t, `(?m)^actors +none on \[host=1,proc=\*\]$`, "mesh", "show", "demo")
	c.ok(t, "mesh", "restart", "demo[host=1]") // without actors none are lost
	c.ok(t, "hosts", "restart", "a", "b", "--force")
	c.shows(t, "^"+up.Mesh+` is running: all its 4 ranks, with no actors in it\n$`, "explain", "demo")
	c.shows(t, `(?m)^actors +none in it$`, "mesh", "show", "demo")
	c.shows(t, `"no_actors": "\*"`, "mesh", "show", "demo", "-o", "json")
	c.ok(t, "stop", "demo")
}

func TestUp_transientRestartBringsActorsBackWithParams(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	_, up := c.up(t, "demo", "--per-host", "gpu=2", "--params", "100", "--restart", "transient")
	require.Equal(t, "404\n", c.ok(t, "cast", "demo", "counter", "add", "1", "--reduce", "sum"))
	c.ok(t, "mesh", "restart", "demo", "--max-unavailable", "2")
	require.Equal(t, "400\n", c.ok(t, "cast", "demo", "counter", "get", "--reduce", "sum"))
	c.shows(t, "^"+up.Mesh+" is running: all its 4 ranks\n$", "explain", "demo")
	c.ok(t, "hosts", "restart", "a", "b")
	require.Equal(t, "404\n", c.ok(t, "cast", "demo", "counter", "add", "1", "--reduce", "sum"))
	c.shows(t, `"restart_policy": "transient: each rank at most 3 times`, "mesh", "show", "demo", "-o", "json")
	c.kill(t, "demo", "host=1,gpu=0")
	c.eventually(t, func(r result) bool { return r.out == "403\n" }, "cast", "demo", "counter", "get",
		"--reduce", "sum")
}

func TestUp_otherRestartPoliciesRequireForceToRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	for restart, args := range map[string][]string{"propagate": nil, "temporary": {"--restart", "temporary"}} {
		_, up := c.up(t, append([]string{restart, "--per-host", "gpu=1", "--params", "7"}, args...)...)
		r := c.client(t, "mesh", "restart", restart)
		require.Equal(t, cli.ExitFailure, r.code)
		require.Contains(t, r.err, "\n  "+up.Actor+" on [*]: their restart policy is "+restart+", not transient\n")
		require.Equal(t, "7\n", c.ok(t, "call", restart, "counter", "get"))
	}
}

func TestSpawn_detachedMeshRefusesActorRestarts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	r := c.client(t, "spawn", "demo", "--detach", "--restart", "transient")
	require.Equal(t, cli.ExitUsage, r.code)
	require.Contains(t, r.err, "the actors of a detached mesh have no owner that could restart them")
	r = c.client(t, "up", "--restart", "permanent")
	require.Equal(t, cli.ExitUsage, r.code)
	require.Contains(t, r.err, "want propagate, temporary, transient")
	c.System(t, "s")
	c.ok(t, "spawn", "demo", "--detach", "--restart", "transient", "--actor", "")
	c.ok(t, "mesh", "restart", "demo")
	c.kill(t, "demo", "host=0,proc=0")
	c.eventually(t, func(r result) bool {
		return strings.Contains(r.out, "is running: its one rank, with no "+
			"actors in it")
	}, "explain", "demo")
	c.ok(t, "stop", "demo")
}

func TestHostRegion_usesTheHostDimensions(t *testing.T) {
	a, err := subjects.NewHostID("a")
	require.NoError(t, err)
	b, err := subjects.NewHostID("b")
	require.NoError(t, err)
	id, err := subjects.NewMeshID("demo")
	require.NoError(t, err)
	for extent, want := range map[string]string{"rack=1,host=2,gpu=2": "rack=0,host=1", "host=2": "host=1",
		"host=2,gpu=1": "host=1"} {
		per := 1
		if strings.Contains(extent, "gpu=2") {
			per = 2
		}
		e := shape.Unit()
		for dim := range strings.SplitSeq(extent, ",") {
			label, size, _ := strings.Cut(dim, "=")
			n, err := strconv.Atoi(size)
			require.NoError(t, err)
			e, err = e.Concat(shape.Of(label, n))
			require.NoError(t, err)
		}
		got, err := hostRegion(agent.Mesh{ID: id, Extent: e, PerHost: per, Hosts: []subjects.HostID{a, b}}, 1)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
