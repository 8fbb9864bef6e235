package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
)

func TestLogs_followMergesAndEndsWithTheMesh(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	_, up := c.up(t, "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	c.ok(t, "cast", "demo", "talker", "talk", `"one"`)
	c.ok(t, "cast", "demo", "talker", "grumble", `"ouch"`)
	c.ok(t, "call", "demo[gpu=1]", "talker", "talk", `"alone"`)
	folded := "[*] [2 similar lines] one from 0…1\n[host=0,gpu=1] alone from 1\n[* stderr] 2× ouch\n"
	require.Equal(t, folded, c.ok(t, "logs", "demo", "--merge"))

	merged := start(t, c.env, "logs", "demo", "-f", "--tail", "0", "--merge", "--window", "20s")
	plain := start(t, c.env, "logs", "demo[gpu=1]", "-f", "--tail", "1")
	require.Equal(t, "[host=0,gpu=1] alone from 1", plain.next(t), "it follows")
	require.Equal(t, "[host=0,gpu=1 stderr] ouch", plain.next(t))
	for !t.Failed() { // until both follow; what all ranks have printed waits for no window
		c.ok(t, "cast", "demo", "talker", "talk", `"two"`)
		if len(merged.lines) > 0 {
			break
		}
	}
	require.Equal(t, "[*] [2 similar lines] two from 0…1", merged.next(t))
	require.Equal(t, "[host=0,gpu=1] two from 1", plain.next(t))
	c.ok(t, "call", "demo[gpu=1]", "talker", "talk", `"last"`)
	c.ok(t, "stop", "demo")
	for _, b := range []*background{merged, plain} {
		require.Zero(t, b.exit(t, nil), b.stderr)
		var rest []string
		for line := range b.lines {
			rest = append(rest, line)
		}
		require.Contains(t, rest, "[host=0,gpu=1] last from 1")
	}
	require.Equal(t, "demo has ended: 2 procs stopped\n", merged.stderr.String())
	require.Equal(t, "demo[gpu=1] has ended: 1 proc stopped\n", plain.stderr.String())

	require.Contains(t, c.ok(t, "logs", "demo[gpu=1]", "--tail", "1"), "[host=0,gpu=1] last from 1\n", "kept after death")
	r := c.client(t, "logs", up.Mesh, "-f", "--tail", "1", "-o", "ndjson")
	require.Zero(t, r.code, r.err)
	require.Len(t, decodeLines[logRecord](t, r.out), 4)
	require.Equal(t, up.Mesh+" has ended: 2 procs stopped\n", r.err)
	require.Equal(t, cli.ExitNotFound, c.client(t, "logs", "nobody").code)
}

func TestLogs_followSaysThatProcsFailed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.up(t, "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	b := start(t, c.env, "logs", "demo[gpu=0]", "-f")
	c.kill(t, "demo", "gpu=0")
	require.Zero(t, b.exit(t, nil), b.stderr)
	require.Equal(t, "demo[gpu=0] has ended: 1 of 1 proc failed\n", b.stderr.String())
}

func TestLogs_ranksWhoseHostIsGoneHaveEnded(t *testing.T) {
	w := &endWatch{p: place{base: grid, region: grid.Region()}, ends: map[int]string{}}
	seen := []procRecord{{Rank: 0, Status: "running"}, {Rank: 1, Status: "stopped"}}
	absent := map[int]int{}
	w.count(seen, absent)
	require.Equal(t, map[int]string{1: "stopped"}, w.how())
	w.count(append(seen, procRecord{Rank: 3, Status: "running"}), absent)
	require.Equal(t, map[int]string{1: "stopped", 2: "failed"}, w.how())
	w.count(seen, absent)
	require.Equal(t, map[int]string{1: "stopped", 2: "failed"}, w.how(), "once is nothing")
}
