package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/cmd/client/internal/casting"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
)

// outcome is the output of a cast for scripts.
type outcome struct {
	Replies  []casting.Reply  `json:"replies"`
	Coverage casting.Coverage `json:"coverage"`
	Value    any              `json:"value"`
	Asked    int              `json:"asked"`
	Sent     int              `json:"sent"`
}

func TestCast_supportsEveryCollectMode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "--per-host", "gpu=2", "--params", "10")

	c.ok(t, "call", "demo[host=0,gpu=1]", "counter", "add", "5")
	r := c.client(t, "cast", "demo", "counter", "get", "--collect", "gather")
	require.Equal(t, "[host=0,gpu=0] 10\n[host=0,gpu=1] 15\n[host=1,gpu=0] 10\n[host=1,gpu=1] 10\n", r.out)
	require.Contains(t, r.err, "asked 4 · answered 4 · failed 0 · missing 0 · ")
	require.NotContains(t, r.err, "p50", "they came together")
	all := decode[outcome](t, c.ok(t, "cast", "demo[gpu=1]", "counter", "get", "--collect", "gather",
		"-o", "json"))
	require.Len(t, all.Replies, 2)
	require.Equal(t, "host=0,gpu=1", all.Replies[0].Point)

	for reducer, want := range map[string]string{
		"sum": "45\n", "count": "4\n", "top(2)": "[15,10]\n", "bottom(1)": "[10]\n", "collect": "[10,15,10,10]\n",
		"count-by": `[{"answer":10,"count":3},{"answer":15,"count":1}]` + "\n",
	} {
		require.Equal(t, want, c.ok(t, "cast", "demo", "counter", "get", "--reduce", reducer), reducer)
	}
	require.Equal(t, "45\n", c.ok(t, "cast", "demo", "counter", "get", "--collect", "reduce", "--reduce", "sum",
		"--batch-size", "3"), "folded here")

	const union = "demo[host=0 | gpu=1]"
	r = c.client(t, "cast", union, "counter", "get")
	require.ElementsMatch(t, []string{"[host=0,gpu=0] 10", "[host=0,gpu=1] 15", "[host=1,gpu=1] 10"},
		strings.FieldsFunc(r.out, func(c rune) bool { return c == '\n' }))
	require.Contains(t, r.err, "asked 3 · answered 3 · failed 0 · missing 0 · ")
	require.Equal(t, "35\n", c.ok(t, "cast", union, "counter", "get", "--reduce", "sum"))
	r = c.client(t, "cast", union, "counter", "get", "--dry-run")
	require.Equal(t, "would ask 3 of 4 ranks in one batch; nothing was sent\n", r.err)

	p := decode[outcome](t, c.ok(t, "cast", "demo", "counter", "add", "1", "--collect", "send", "-o", "json"))
	require.Equal(t, 4, p.Asked)
	require.Equal(t, 4, p.Sent)
	r = c.client(t, "cast", "demo[host=1]", "counter", "add", "1", "--collect", "send")
	require.Empty(t, r.out)
	require.Equal(t, "asked 2 · sent 2 · failed 0\n", r.err)
	require.Equal(t, "51\n", c.ok(t, "cast", "demo", "counter", "get", "--reduce", "sum"),
		"the sent message has arrived")

	require.Equal(t, "12\n", c.ok(t, "cast", "demo[host=1]", "counter", "get", "--collect", "choose"))
	require.EqualValues(t, 11, decode[outcome](t,
		c.ok(t, "cast", "demo[host=0,gpu=0]", "counter", "get", "--collect", "choose", "-o", "json")).Value)
}

func TestCast_usesTheEndpointsReducer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	require.Equal(t, "0\n", c.ok(t, "cast", "demo", "talker", "rank", "--reduce", "first"))
	r := c.client(t, "cast", "demo", "talker", "rank", "--reduce", "last")
	require.Equal(t, cli.ExitUsage, r.code)
	require.Contains(t, r.err, `reducer "last": no such built-in reducer`)
	r = c.client(t, "cast", "demo", "talker", "rank", "--reduce", "first", "--batch-size", "1")
	require.Equal(t, cli.ExitUsage, r.code, "a local fold needs a known reducer")
	require.Contains(t, r.err, `"first"`)
}

func TestCast_sendsBatchesUntilStopped(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	b, _ := c.up(t, "--per-host", "gpu=3")

	r := c.client(t, "cast", "demo", "counter", "add", "1", "--one-per", "host", "--batch-delay", "1ms")
	require.Zero(t, r.code, r.err)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	require.Len(t, lines, 6)
	for i := range 3 {
		require.ElementsMatch(t, []string{"[host=0,", "[host=1,"},
			[]string{lines[2*i][:8], lines[2*i+1][:8]}, r.out)
	}
	require.Contains(t, r.err, "asked 6 · answered 6 · failed 0 · missing 0 · p50 ")

	c.kill(t, "demo", "host=0,gpu=0")
	require.Equal(t, "failed", decode[map[string]any](t, b.Out.Line(t))["status"])
	r = c.client(t, "cast", "demo", "counter", "add", "1", "--canary")
	require.Equal(t, cli.ExitPartial, r.code)
	require.Empty(t, r.out)
	require.Contains(t, r.err, "asked 1 · answered 0 · failed 1 [host=0,gpu=0] · missing 0 · not asked 5 "+
		"[host=*,gpu=1:3 | host=1,gpu=0]")
	require.Contains(t, r.err, "6 of 6 ranks gave no value:\n  [host=0,gpu=0] the proc is gone: killed by "+
		"signal 9")
	require.Contains(t, r.err, "not asked: the canary failed: ")

	for _, collect := range []string{"stream", "gather"} {
		stopped := c.client(t, "cast", "demo", "counter", "add", "1", "--batch-size", "2", "--max-failures", "1",
			"--collect", collect, "-o", "json")
		require.Equal(t, cli.ExitPartial, stopped.code, stopped.err)
		got := decode[outcome](t, stopped.out)
		require.Len(t, got.Replies, 1, collect)
		require.Equal(t, 2, got.Coverage.Asked)
		require.Len(t, got.Coverage.NotAsked, 4)
		require.Equal(t, "host=0,gpu=2", got.Coverage.NotAsked[0].Point)
		require.Contains(t, got.Coverage.NotAskedRegion, "host=")
		require.Contains(t, got.Coverage.NotAsked[0].Error, "stopped after 1 failures")
	}
	require.Equal(t, "7\n", c.client(t, "cast", "demo", "counter", "get", "--reduce", "sum").out,
		"unasked ranks have not counted")
	r = c.client(t, "cast", "demo", "counter", "get", "--collect", "send")
	require.Equal(t, cli.ExitPartial, r.code)
	require.Contains(t, r.err, "asked 6 · sent 5 · failed 1 [host=0,gpu=0]\n")
	require.Contains(t, r.err, "1 of 6 ranks did not get the message: [host=0,gpu=0]")
}

func TestCast_dryRunListsRanksWithoutSending(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.up(t, "--per-host", "gpu=4")
	r := c.client(t, "cast", "demo[gpu=1:3]", "counter", "add", "1", "--one-per", "host", "--dry-run")
	require.Zero(t, r.code, r.err)
	var rows []string
	for line := range strings.Lines(r.out) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"BATCH RANK POINT HOST", "1 1 host=0,gpu=1 a", "1 5 host=1,gpu=1 b", "2 2 host=0,gpu=2 a",
		"2 6 host=1,gpu=2 b",
	}, rows)
	require.Equal(t, "would ask 4 of 8 ranks in 2 batches; nothing was sent\n", r.err)

	r = c.client(t, "cast", "demo[gpu=1:3]", "counter", "add", "1", "--one-per", "gpu", "--dry-run")
	require.Equal(t, "would ask 4 of 8 ranks in 2 batches; nothing was sent\n", r.err)
	require.Regexp(t, `1 +1 +host=0,gpu=1 +a\s+1 +2 +host=0,gpu=2 +a\s+2 +5 +host=1,gpu=1 +b`, r.out)
	r = c.client(t, "cast", "demo", "counter", "add", "1", "--one-per", "proc", "--dry-run")
	require.Equal(t, cli.ExitUsage, r.code)
	require.Contains(t, r.err, "--one-per proc: mesh demo has no such dimension; want one of host, gpu")

	planned := decode[[]casting.PlannedRecord](t,
		c.ok(t, "cast", "demo", "counter", "add", "1", "--sample", "25%", "--seed", "7", "--dry-run", "-o", "json"))
	require.Len(t, planned, 2)
	require.Equal(t, 1, planned[1].Batch)
	require.True(t, strings.HasPrefix(planned[0].Host, "a-") || strings.HasPrefix(planned[0].Host, "b-"))
	require.Equal(t, "0\n", c.ok(t, "cast", "demo", "counter", "get", "--reduce", "sum"))

	asked := decodeLines[outcome](t, c.ok(t, "cast", "demo", "counter", "add", "1", "--sample", "25%", "--seed",
		"7", "-o", "ndjson"))
	require.Len(t, asked, 3)
	require.Equal(t, 2, asked[2].Coverage.Asked)
	for _, p := range planned {
		require.Equal(t, "1\n", c.ok(t, "call", "demo["+p.Point+"]", "counter", "get"),
			"the same seed draws the same ranks")
	}
}

func TestNatsCommand_translatesFlagsForAGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// nothing listens there, and the command sends nothing
	env := append(baseEnv(dir), "NATS_URL=nats://127.0.0.1:1", "NATS_TOKEN=secret")
	for _, row := range []struct{ args, want string }{
		{`demo[host=0:2,gpu=*]|counter|add|{"n":"it's"}`,
			`nats req castnet.v1.default.cast.demo.counter.add.u-anon.x '{"n":"it'\''s"}' -H Content-Type:application/json ` +
				`-H 'Castnet-Region:host=0:2,gpu=*' -H Castnet-Collect:stream --timeout=35s --wait-for-empty --reply-timeout=30s`},
		{`demo|counter|get|--reduce|top(3)|--timeout|2m`,
			`nats req castnet.v1.default.cast.demo.counter.get.u-anon.x '' -H Content-Type:application/json ` +
				`-H 'Castnet-Reduce:top(3)' -H Castnet-TTL:2m0s --timeout=2m5s`},
		{`demo|counter|add| -5|--collect|gather|--namespace|lab`,
			`nats req castnet.v1.lab.cast.demo.counter.add.u-anon.x ' -5' -H Content-Type:application/json --timeout=35s`},
		{`demo|echo|echo|"{{x}}"|--collect|send|-s|nats://n`,
			`nats --server nats://n req castnet.v1.default.cast.demo.echo.echo.u-anon.x '"{{x}}"' -H Content-Type:application/json ` +
				`-H Castnet-Collect:send --timeout=35s --no-templates`},
	} {
		r := runClient(t, env, append(append([]string{"cast"}, strings.Split(row.args, "|")...), "--print-nats")...)
		require.Zero(t, r.code, r.err)
		require.Equal(t, row.want+"\n", r.out)
		require.Empty(t, r.err)
		words, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", `nats() { printf '%s\n' "$@"; }; `+
			r.out).Output()
		require.NoError(t, err)
		_, subject, _ := strings.Cut(string(words), "req\n")
		subject, _, _ = strings.Cut(subject, "\n")
		space, err := subjects.NewSpace("", strings.Split(subject, ".")[2])
		require.NoError(t, err)
		parsed, err := space.Parse(subject)
		require.NoError(t, err)
		require.Equal(t, subjects.KindGateway, parsed.Kind)
	}
	r := runClient(t, env, "cast", "demo", "counter", "get", "--print-nats", "-o", "json")
	require.Contains(t, decode[map[string]string](t, r.out)["command"], "nats req castnet.")
}
