package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh/inspect"
)

func TestSpawn_detachedMeshOutlivesItsClientAndIsAdopted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	r := c.client(t, "spawn", "demo", "--per-host", "2", "--detach")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, "no system controller answers")
	require.Empty(t, c.ok(t, "meshes"), "the refused mesh left nothing")
	c.System(t, "s")
	up := decode[heldmesh.Started](t, c.ok(t, "spawn", "demo", "--per-host", "2", "--hosts", "a", "--params",
		"100", "--detach", "-o", "ndjson"))
	require.Equal(t, []string{"a"}, up.Hosts)
	require.Equal(t, "host=1,proc=2", up.Extent)
	require.EqualValues(t, 2, up.Epoch)
	for _, p := range decode[[]inspect.Proc](t, c.ok(t, "procs", up.Mesh, "-o", "json")) {
		c.procs = append(c.procs, p.PID)
	}
	require.Equal(t, "202\n", c.ok(t, "cast", "demo", "counter", "add", "1", "--reduce", "sum"))
	m := saying(t, c, func(m []inspect.MeshSummary) bool { return len(m) == 1 && m[0].Owner.Kind == "system" },
		"meshes", "-o", "json")
	require.Equal(t, inspect.MeshOwner{Kind: "system", ID: up.Owner, Epoch: 2}, m[0].Owner)
	require.Equal(t, []any{"mesh", 2, "running"}, []any{m[0].Kind, m[0].Running, m[0].Phase})
	c.shows(t, `demo-\w+ +mesh +host=1,proc=2 +2/2 +a +system +running +\d`, "meshes")
	c.shows(t, "^"+up.Mesh+" is running: all its 2 ranks\n$", "explain", "demo")
	c.shows(t, `(?m)^lease +1m0s: procs outlive`, "mesh", "show", "demo")
	c.requireCompletions(t, "demo\n", "adopt", "de")
	c.requireCompletions(t, "a,b\n", "spawn", "x", "--hosts", "a,")

	r = c.client(t, "spawn", "demo", "--detach")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, "name demo is taken by mesh "+up.Mesh+
		": want another name, or `castnet stop demo` first")
	file := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte("name: demo\nshape: x=1\nper-host: 1\ncommand: builtin\n"), 0o600))
	r = c.client(t, "plan", "-f", file)
	require.Equal(t, []string{"", "castnet: name demo is taken by mesh " + up.Mesh + "\n"},
		[]string{r.out, r.err})
	r = c.client(t, "adopt", "demo", "--epoch", "1")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Regexp(t,
		`belongs to system-\w+/0.0/demo-\w+ since epoch 2: the request is from client-\w+/0.0/adopter in epoch 1`, r.err)
	require.Equal(t, cli.ExitNotFound, c.client(t, "adopt", "nobody").code)
	require.Equal(t, cli.ExitUsage, c.client(t, "adopt", "demo[host=0]").code)

	b := start(t, c.env, "adopt", "demo", "-o", "ndjson")
	mine := decode[heldmesh.Started](t, b.Out.Line(t))
	require.Equal(t, up.Mesh, mine.Mesh)
	require.NotEqual(t, up.Owner, mine.Owner)
	m = saying(t, c, func(m []inspect.MeshSummary) bool { return len(m) == 1 && m[0].Owner.Kind == "program" },
		"meshes", "-o", "json")
	require.Equal(t, inspect.MeshOwner{Kind: "program", ID: mine.Owner, Epoch: 3}, m[0].Owner)
	r = c.client(t, "adopt", "demo")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, "is owned by "+mine.Owner+" in epoch 3: want a mesh that is detached")
	r = c.client(t, "plan", "-f", file)
	require.Equal(t, []string{"", "castnet: name demo is taken by mesh " + up.Mesh + "\n"},
		[]string{r.out, r.err}, "also when a program owns it")
	require.Equal(t, "204\n", c.ok(t, "cast", "demo", "counter", "add", "1", "--reduce", "sum"))
	require.Zero(t, exit(t, b, os.Interrupt))
	require.Empty(t, c.ok(t, "meshes"))
	require.Contains(t, c.ok(t, "meshes", "--all"), up.Mesh)
}

func TestMeshes_listTheirOwners(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	_, up := c.up(t, "one", "--per-host", "gpu=1")
	b, _ := c.up(t, "two", "--per-host", "gpu=1", "--lease", "45s")
	exit(t, b, syscall.SIGKILL)
	m := saying(t, c, func(m []inspect.MeshSummary) bool {
		return len(m) == 2 && m[0].Owner.Kind == "program" && strings.Contains(m[1].Owner.Reason, "is gone")
	}, "meshes", "-o", "json")
	require.Equal(t, inspect.MeshOwner{Kind: "program", ID: up.Owner, Epoch: 1}, m[0].Owner)
	require.Equal(t, "none", m[1].Owner.Kind)
	c.ok(t, "stop", "two")
	d := start(t, c.env, "spawn", "three", "--actor", "", "-o", "ndjson")
	require.Equal(t, "host=1,proc=1", decode[heldmesh.Started](t, d.Out.Line(t)).Extent)
	require.Zero(t, exit(t, d, os.Interrupt), "without --detach it is held as up does")
	require.Eventually(t, func() bool { return !strings.Contains(c.ok(t, "meshes"), "three") }, testkit.Patience,
		50*time.Millisecond)
}

func TestApply_refusesTheNameOfAMesh(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.System(t, "s")
	_, up := c.up(t, "train", "--per-host", "gpu=1")
	file := t.TempDir() + "/w.yaml"
	require.NoError(t, os.WriteFile(file,
		[]byte("name: train\nshape: x=1\nper-host: 1\ncommand: builtin\n"), 0o600))
	for _, verb := range []string{"plan", "apply"} {
		r := c.client(t, verb, "-f", file, "--timeout", testkit.Patience.String())
		require.Equal(t, cli.ExitFailure, r.code, verb)
		require.Contains(t, r.err, "name train is taken by mesh "+up.Mesh)
	}
	require.Empty(t, c.ok(t, "worlds"))
	c.ok(t, "stop", "train")
	c.ok(t, "apply", "-f", file)
}
