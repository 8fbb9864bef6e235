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
)

func TestEvents_showChangesAndFailures(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.System(t, "s")
	c.host(t, "b")
	all, procs := start(t, c.env, "events", "-f", "-o", "ndjson"),
		start(t, c.env, "events", "-f", "-v", "--kind", "proc", "--mesh", "demo")
	for !strings.Contains(all.Out.String(), `"kind":"host"`) { // until it listens
		c.ok(t, "hosts", "cordon", "a")
		c.ok(t, "hosts", "uncordon", "a")
	}
	c.ok(t, "hosts", "cordon", "a")
	cordoned := decode[actor.Event](t, all.Out.Find(t, `"step":"host.cordon"`))
	require.Equal(t, "cordoned", cordoned.Status, "as it is now")
	require.Regexp(t, `^o-[a-z0-9_-]+\.`, cordoned.By)
	audited := decode[actor.Event](t, all.Out.Find(t, `"step":"audit.cordon"`))
	require.Equal(t, []string{"granted", "close"}, []string{audited.Status, audited.Object})
	require.Equal(t, strings.Split(cordoned.By, ".")[0], strings.Split(audited.By, ".")[0])
	c.leave[1]()
	require.Contains(t, []string{"host.left", "host.dead"},
		decode[actor.Event](t, all.Out.Find(t, `,"host":"b-`)).Step)
	c.ok(t, "hosts", "uncordon", "a")
	owner, up := c.up(t, "demo", "--per-host", "gpu=2")
	require.Equal(t, up.Mesh, decode[actor.Event](t, all.Out.Find(t, `"step":"mesh.spawn.success"`)).Mesh)
	c.kill(t, "demo", "gpu=1")
	require.Equal(t, 9, decode[actor.Event](t, all.Out.Find(t, `"step":"proc.exit.signal"`)).Signal)
	require.Regexp(t,
		`^\d\d:\d\d:\d\d proc  demo \[host=0,gpu=1\] failed (proc\.exit\.signal )?on a: killed by signal 9`,
		procs.Out.Find(t, " failed "))
	require.Contains(t, procs.Out.Line(t), "about: "+up.Mesh+"/1.0")
	require.Contains(t, procs.Out.Line(t), "host: a-")
	require.Contains(t, procs.Out.Line(t), "signal: 9")

	require.Eventually(t, func() bool {
		return strings.Contains(c.ok(t, "events"), "demo [host=0,gpu=1] failed")
	}, testkit.Patience, 50*time.Millisecond, "its owner remembers")
	owner.Send(t, os.Kill)
	owner.Exit(t)
	past := decode[[]actor.Event](t, c.ok(t, "events", "--mesh", "demo", "--kind", "proc", "-o", "json"))
	require.Len(t, past, 1, "the system controller remembers")
	require.Equal(t, []any{1, 9}, []any{past[0].Rank, past[0].Signal})
	require.Empty(t, decode[[]actor.Event](t, c.ok(t, "events", "--mesh", "other", "-o", "json")))
	require.Zero(t, exit(t, all, os.Interrupt), all.Err)
	require.Zero(t, exit(t, procs, os.Interrupt), procs.Err)
	for _, args := range [][]string{{"--kind", "thing"}, {"--mesh", "a b"}, {"demo"}} {
		r := c.client(t, append([]string{"events"}, args...)...)
		require.Equal(t, cli.ExitUsage, r.code, "%v: %s", args, r.err)
	}
}
