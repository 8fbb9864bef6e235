package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

func TestGrowAndShrink_changeTheHostsOfAHeldMesh_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	b, up := c.up(t, "demo", "--per-host", "gpu=2", "--params", "100", "--restart", "temporary")
	c.host(t, "b")
	c.host(t, "c")
	sum := func(want string) {
		t.Helper()
		require.Equal(t, want, c.ok(t, "cast", "demo", "counter", "get", "--reduce", "sum"))
	}
	sum("200\n")
	added := decode[[]resizeRecord](t, c.ok(t, "grow", "demo", "--hosts", "b", "-o", "json"))
	require.Equal(t, []resizeRecord{{Mesh: up.Mesh, Host: "b", ID: added[0].ID, Region: "host=1", Ranks: 2,
		Result: "added"}}, added)
	sum("400\n")
	r := c.client(t, "grow", "demo", "2")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Equal(t, "castnet: cannot grow "+up.Mesh+" by 2 hosts: 1 of them free: `castnet hosts` lists them\n", r.err)
	require.Regexp(t, `(?m)^demo-\w+ +c +host=2 +2 +added$`, c.ok(t, "grow", "demo", "1"))
	sum("600\n")
	for _, p := range decode[[]inspect.Proc](t, c.ok(t, "procs", "demo", "-o", "json")) {
		c.procs = append(c.procs, p.PID)
	}

	c.ok(t, "hosts", "cordon", "b")
	r = c.client(t, "shrink", "demo", "--hosts", "b")
	require.Equal(t, cli.ExitUsage, r.code)
	require.Contains(t, r.err, "--hosts b: mesh "+up.Mesh+" shrinks from its end: the last 1 host is c")
	removed := decode[[]resizeRecord](t, c.ok(t, "shrink", "demo", "2", "-o", "json"))
	require.Equal(t, []string{"b host=1 removed", "c host=2 removed"}, []string{
		removed[0].Host + " " + removed[0].Region + " " + removed[0].Result,
		removed[1].Host + " " + removed[1].Region + " " + removed[1].Result,
	})
	sum("200\n")
	r = c.client(t, "grow", "demo", "--hosts", "b")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Regexp(t, `^castnet: 2 of 2 ranks of demo-\w+ did not start on b-\w+:`, r.err)
	c.ok(t, "grow", "demo", "--hosts", "c")
	sum("400\n")
	require.Zero(t, exit(t, b, os.Interrupt), "the ends of removed ranks do not end the command")
}

func TestGrowAndShrink_refuseMeshesThatCannot(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.System(t, "s")
	_, up := c.up(t, "demo", "--per-host", "gpu=1")
	c.ok(t, "spawn", "kept", "--detach")
	c.host(t, "b")
	for want, args := range map[string][]string{
		"grow: want either a number of hosts, or --hosts with their names":   {"grow", "demo"},
		"shrink: want either a number of hosts, or --hosts with their names": {"shrink", "demo", "1", "--hosts", "a"},
		`number of hosts "0": want a whole number, 1 or more`:                {"grow", "demo", "0"},
		"grow takes a whole mesh: want demo, got demo[host=0]":               {"grow", "demo[host=0]", "1"},
		"mesh " + up.Mesh + " has 1: `castnet stop` ends it":                 {"shrink", "demo", "1"},
	} {
		r := c.client(t, args...)
		require.Equal(t, cli.ExitUsage, r.code, r.err)
		require.Contains(t, r.err, want)
	}
	require.Equal(t, cli.ExitNotFound, c.client(t, "grow", "nobody", "1").code)
	require.Equal(t, cli.ExitNotFound, c.client(t, "grow", "demo", "--hosts", "nobody").code)
	for want, args := range map[string][]string{
		"want hosts that the mesh does not have": {"grow", "demo", "--hosts", "a"},
		"it is detached: adopt it first":         {"grow", "kept", "--hosts", "b"},
	} {
		r := c.client(t, args...)
		require.Equal(t, cli.ExitFailure, r.code, r.err)
		require.Contains(t, r.err, want)
	}
	c.ok(t, "stop", "kept")
}

func TestUp_keepsSparesFreeAndLimitsItsProcs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	for want, args := range map[string][]string{
		"--spares 1: want --restart transient with it": {"--spares", "1"},
		"memory limit of 1024 bytes: want at least":    {"--memory", "1KiB"},
		"want a size such as 512MiB":                   {"--memory", "lots"},
		"want a number of cores, such as 1.5":          {"--cpu", "-1"},
		"limit of 3 pids: want at least 16":            {"--pids", "3"},
	} {
		r := c.client(t, append([]string{"spawn", "demo", "--detach"}, args...)...)
		require.Equal(t, cli.ExitUsage, r.code, r.err)
		require.Contains(t, r.err, want)
	}
	r := c.client(t, "up", "demo", "--restart", "transient", "--spares", "2")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, "--spares 2 of 2 hosts: want at most one for each host of the mesh")

	b := start(t, c.env, "up", "demo", "--per-host", "1", "--restart", "transient", "--spares", "1", "--files", "100",
		"--memory", "1GiB", "-o", "ndjson")
	up := decode[heldmesh.Started](t, b.Out.Line(t))
	require.Equal(t, "host=1,proc=1", up.Extent)
	require.Len(t, up.Spares, 1)
	v := saying(t, c, func(v inspect.View) bool { return v.Owner.Answering },
		"mesh", "show", "demo", "-o", "json")
	require.Equal(t, 1, v.Owner.Spares)
	require.Contains(t, c.client(t, "grow", "demo", "1").err, "0 of them free", "a spare is not free")
	procs, err := c.Connect(t).Lookup(testkit.Soon(t), "demo")
	require.NoError(t, err)
	require.Equal(t, mesh.Limits{Memory: 1 << 30, Files: 100}, procs.Describe().Limits)
	c.ok(t, "hosts", "drain", up.Hosts[0])
	testkit.Until(t, "the rank is on the spare", func() bool {
		all := decode[[]inspect.Proc](t, c.ok(t, "procs", "demo", "-o", "json"))
		return len(all) == 1 && all[0].Status == "running"
	})
	require.Zero(t, exit(t, b, os.Interrupt))
}

func TestGolden_resize(t *testing.T) {
	golden.Check(t, "grow", func(out *output.Printer) error {
		return showResized(out, []resizeRecord{
			{Mesh: demoID, Host: "node-b", ID: hostB, Region: "host=1", Ranks: 4, Result: "added"},
			{Mesh: demoID, Host: "node-c", ID: "node-c-0123456789abe", Region: "host=2", Ranks: 4, Result: "added"},
		})
	})
}
