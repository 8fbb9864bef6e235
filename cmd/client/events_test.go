package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

func TestEvents_showChangesAndFailures(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.host(t, "b")
	all, procs := start(t, c.env, "events", "-f", "-o", "ndjson"), start(t, c.env, "events", "-f", "-v", "--kind", "proc", "--mesh", "demo")
	for !strings.Contains(all.Out.String(), `"kind":"host"`) { // until it listens
		c.ok(t, "hosts", "cordon", "a")
		c.ok(t, "hosts", "uncordon", "a")
	}
	c.ok(t, "hosts", "cordon", "a")
	cordoned := decode[actor.Event](t, all.Out.Find(t, `"step":"host.cordon"`))
	require.Equal(t, "cordoned", cordoned.Status, "as it is now")
	c.leave[1]()
	require.Contains(t, []string{"host.left", "host.dead"}, decode[actor.Event](t, all.Out.Find(t, `,"host":"b-`)).Step)
	c.ok(t, "hosts", "uncordon", "a")
	_, up := c.up(t, "demo", "--per-host", "gpu=2")
	require.Equal(t, up.Mesh, decode[actor.Event](t, all.Out.Find(t, `"step":"mesh.spawn.success"`)).Mesh)
	c.kill(t, "demo", "gpu=1")
	require.Equal(t, 9, decode[actor.Event](t, all.Out.Find(t, `"step":"proc.exit.signal"`)).Signal)
	require.Regexp(t, `^\d\d:\d\d:\d\d proc  demo \[host=0,gpu=1\] failed (proc\.exit\.signal )?on a: killed by signal 9`, procs.Out.Find(t, " failed "))
	require.Contains(t, procs.Out.Line(t), "about: "+up.Mesh+"/1.0")
	require.Contains(t, procs.Out.Line(t), "host: a-")
	require.Contains(t, procs.Out.Line(t), "signal: 9")

	require.Eventually(t, func() bool {
		return strings.Contains(c.ok(t, "events"), "demo [host=0,gpu=1] failed")
	}, testkit.Patience, 50*time.Millisecond, "its owner remembers")
	require.Empty(t, decode[[]actor.Event](t, c.ok(t, "events", "--mesh", "other", "-o", "json")))
	require.Zero(t, exit(t, all, os.Interrupt), all.Err)
	require.Zero(t, exit(t, procs, os.Interrupt), procs.Err)
	for _, args := range [][]string{{"--kind", "thing"}, {"--mesh", "a b"}, {"demo"}} {
		r := c.client(t, append([]string{"events"}, args...)...)
		require.Equal(t, cli.ExitUsage, r.code, "%v: %s", args, r.err)
	}
}

func TestEvents_showTheRootCauseInOneLine(t *testing.T) {
	code := 3
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local)
	e := actor.Event{
		Kind: actor.KindActor, Status: "failed", Mesh: "demo-000000000000m", Rank: 2, Actor: "counter-000000000000n", Type: "counter", Name: "trainer",
		Host: "b-000000000000b", Step: "rank.drop", Reason: "it broke\ntwice", At: at, ExitCode: &code, StderrTail: []string{"oh"},
		Cause: &actor.Event{Kind: actor.KindActor, Status: "failed", Reason: "second", Cause: &actor.Event{Kind: actor.KindActor, Status: "failed", Reason: "first"}},
	}
	a := &app{}
	v := a.newEventView(nil, true)
	v.extents[e.Mesh] = shape.Of("host", 2).With("gpu", 2)
	require.Equal(t, "host=1,gpu=0", v.position(t.Context(), e))
	require.Equal(t, "05:06:07 actor trainer [host=1,gpu=0] counter failed rank.drop on b: it broke … ← actor failed: first", v.line(e, "host=1,gpu=0"))
	require.Equal(t, []string{
		"about: demo-000000000000m/2.0/counter-000000000000n (type counter), at " + at.Format(time.RFC3339Nano), "host: b-000000000000b", "exit code: 3",
		"reason: it broke", "reason: twice", "caused by: actor failed: second", "caused by: actor failed: first", "| oh",
	}, details(e))
	own := e
	own.Kind, own.Point = actor.KindMesh, "host=1/2,gpu=0/2"
	require.Equal(t, "host=1,gpu=0", v.position(t.Context(), own), "a controller tells what became of a rank")
	own.Point = ""
	require.Empty(t, v.position(t.Context(), own), "or of its mesh")
	e.Count = 2
	require.Equal(t, "host=1,gpu=*", v.position(t.Context(), e))
	v.refreshedAt = time.Now()
	e.Mesh = "gone-000000000000m"
	require.Equal(t, "2-3", v.position(t.Context(), e), "its mesh is not known, and hosts were asked a moment ago")
	e.Rank, e.Count = 1000, 1<<40
	require.Equal(t, "1000-1099511628775", v.position(t.Context(), e), "whoever says so is shown in a few bytes")
}
