package main

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/casting"
	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/cmd/client/internal/logs"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/subjects"
)

func TestLists_areTablesForTerminalsAndDocumentsForScripts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	_, up := c.up(t, "demo", "--per-host", "gpu=2", "--params", "10")
	require.Equal(t, "host=2,gpu=2", up.Extent)
	require.Equal(t, []string{"a", "b"}, up.Hosts)

	hosts := decode[[]agent.HostInfo](t, c.ok(t, "hosts", "-o", "json"))
	require.Len(t, hosts, 2)
	require.Equal(t, "a", hosts[0].Label)
	require.Equal(t, 2, hosts[0].Procs)
	lines := strings.Split(strings.TrimSpace(c.ok(t, "hosts")), "\n")
	require.Len(t, lines, 3)
	require.Equal(t, []string{"HOST", "STATUS", "ID", "PROCS", "CPUS", "PID", "AGE", "VERSION"},
		strings.Fields(lines[0]))
	require.Equal(t, []string{"b", "alive", hosts[1].ID.String(), "2"}, strings.Fields(lines[2])[:4])

	procs := decodeLines[inspect.Proc](t, c.ok(t, "procs", "-o", "ndjson"))
	require.Len(t, procs, 4)
	require.Equal(t, "host=1,gpu=0", procs[2].Point)
	require.Equal(t, hosts[1].ID.String(), procs[2].Host)
	require.Equal(t, "running", procs[2].Status)
	require.Contains(t, c.ok(t, "procs"), "host=1,gpu=1")
	sliced := decode[[]inspect.Proc](t, c.ok(t, "procs", "demo[host=1,gpu=1]", "-o", "json"))
	require.Len(t, sliced, 1)
	require.Equal(t, procs[3].PID, sliced[0].PID)

	actors := decode[[]inspect.Actor](t, c.ok(t, "actors", "demo[gpu=1]", "-o", "json"))
	require.Len(t, actors, 2)
	require.Equal(t, up.Actor, actors[1].Actor)
	require.Equal(t, 3, actors[1].Rank, "ranks are those of the whole mesh")
	require.Contains(t, actors[1].Endpoints, "add(int64) int64")
	r := c.client(t, "actors", "demo")
	require.Equal(t, 5, strings.Count(r.out, "\n"))
	require.Contains(t, r.err, "endpoints of counter: add(int64) int64")
	require.Contains(t, c.ok(t, "actors", "demo", "--all"), "proc-agent")

	links := decode[[]inspect.Link](t, c.ok(t, "procs", "demo[host=1,gpu=1]", "--links", "-o", "json"))
	require.NotEmpty(t, links)
	for _, l := range links {
		require.Equal(t, sliced[0].Rank, l.Rank)
		require.Empty(t, l.StallReason)
	}
	require.Contains(t, c.ok(t, "procs", "demo", "--links"), "STALLED")
}

func TestCallAndCast_reachOneAndMany(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	_, up := c.up(t, "--per-host", "gpu=2", "--params", "10")
	require.Equal(t, "15\n", c.ok(t, "call", "demo[host=1,gpu=0]", "counter", "add", "5"))
	require.Equal(t, "15\n", c.ok(t, "call", up.Mesh+"[host=1,gpu=0]", up.Actor, "get"))

	r := c.client(t, "cast", "demo", "counter", "add", "1")
	require.Zero(t, r.code, r.err)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	slices.Sort(lines)
	require.Equal(t, []string{"[host=0,gpu=0] 11", "[host=0,gpu=1] 11", "[host=1,gpu=0] 16",
		"[host=1,gpu=1] 11"}, lines)
	require.Contains(t, r.err, "asked 4 · answered 4 · failed 0 · missing 0 · ")

	type outcome struct {
		Replies  []casting.Reply  `json:"replies"`
		Coverage casting.Coverage `json:"coverage"`
		Value    any              `json:"value"`
		Rank     *int             `json:"rank"`
	}
	all := decode[outcome](t, c.ok(t, "cast", "demo[host=1]", "counter", "get", "-o", "json"))
	require.Equal(t, 2, all.Coverage.Asked)
	require.Equal(t, "host=1,gpu=0", all.Replies[0].Point)
	require.JSONEq(t, "16", string(all.Replies[0].Value))
	stream := decodeLines[outcome](t, c.ok(t, "cast", "demo[host=1]", "counter", "get", "-o", "ndjson"))
	require.Len(t, stream, 3)
	require.Equal(t, 2, stream[2].Coverage.Answered)

	for reducer, want := range map[string]string{"sum": "49\n", "min": "11\n", "max": "16\n"} {
		require.Equal(t, want, c.ok(t, "cast", "demo", "counter", "get", "--reduce", reducer))
	}
	one := decode[outcome](t, c.ok(t, "cast", "demo[gpu=1]", "counter", "get", "--reduce", "sum", "-o", "json"))
	require.EqualValues(t, 22, one.Value)
	require.Equal(t, 2, one.Coverage.Answered)
}

func TestEcho_returnsAnyJSON(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.up(t, "--per-host", "gpu=2", "--actor", "echo")
	for _, text := range []string{`{"a":[1,2.5,-3,true,null],"b":{"c":"ü<&>"}}`, `"text"`, `9223372036854775807`,
		`-0.5`, `[]`, `{}`, `false`} {
		require.Equal(t, text+"\n", c.ok(t, "call", "demo[gpu=0]", "echo", "echo", text))
	}
	for reducer, want := range map[string]string{"sum": "5\n", "max": "2.5\n"} {
		require.Equal(t, want, c.ok(t, "cast", "demo", "echo", "echo", "2.5", "--reduce", reducer))
	}
	require.Equal(t, "true\n", c.ok(t, "cast", "demo", "echo", "echo", "true", "--reduce", "all"))
}

func TestCast_namesRanksWithoutAValueAndWhy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	b, up := c.up(t, "--per-host", "gpu=2")
	c.kill(t, "demo", "host=1,gpu=0")
	e := decode[map[string]any](t, b.Out.Line(t))
	require.Equal(t, "failed", e["status"])
	require.EqualValues(t, 9, e["signal"])
	begun := time.Now()
	r := c.client(t, "cast", "demo", "counter", "add", "1")
	require.Equal(t, cli.ExitPartial, r.code)
	require.Less(t, time.Since(begun), 20*time.Second, "the answer is known without a wait for the deadline")
	require.Equal(t, 3, strings.Count(r.out, "\n"))
	require.Contains(t, r.err, "asked 4 · answered 3 · failed 1 [host=1,gpu=0] · missing 0")
	require.Contains(t, r.err, "castnet: 1 of 4 ranks gave no value: [host=1,gpu=0] ")
	require.Contains(t, r.err, "killed by signal 9")
	r = c.client(t, "cast", "demo", "counter", "get", "--reduce", "sum", "-o", "json")
	require.Equal(t, cli.ExitPartial, r.code)
	f := decode[casting.ReduceResult](t, r.out)
	require.JSONEq(t, "3", string(f.Value))
	require.Equal(t, "host=1,gpu=0", f.Coverage.FailedRegion)
	r = c.client(t, "cast", up.Mesh, "counter", "get", "-o", "ndjson")
	require.Equal(t, cli.ExitPartial, r.code)
	require.Contains(t, r.out, `"error":"the proc is gone: killed by signal 9`)
	r = c.client(t, "call", "demo[host=1,gpu=0]", "counter", "get")
	require.NotZero(t, r.code)
	require.Contains(t, r.err, "the proc is gone: killed by signal 9")
	require.Contains(t, c.ok(t, "procs", "demo"), "killed by signal 9")

	require.Equal(t, cli.ExitFailure, func() int { c.client(t, "stop", "demo"); return b.Exit(t) }(),
		"not every proc was stopped")
	require.Contains(t, b.Err.String(), "1 of 4 procs failed")
}

func TestCast_respectsItsTimeout(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.up(t, "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	// A busy machine may need the second for the search alone.
	c.eventually(t, func(r result) bool {
		return r.code == cli.ExitPartial && strings.Contains(r.err, "missing 2 [*]")
	}, "cast", "demo", "talker", "hang", "--timeout", "1s")
	r := c.eventually(t, func(r result) bool { return r.code == cli.ExitTimeout },
		"call", "demo[gpu=0]", "talker", "hang", "--timeout", "1s")
	require.Equal(t, "null\n", c.ok(t, "call", "demo[gpu=1]", "talker", "null"))
	r = c.client(t, "call", "demo[gpu=1]", "talker", "crash")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, "panicked: crash test")
}

func TestStop_endsTheMeshAndItsOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	b, up := c.up(t, "--per-host", "gpu=2", "--env", "DATA=/data")
	for _, p := range decode[[]inspect.Proc](t, c.ok(t, "procs", "demo", "-o", "json")) {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/environ")
		require.NoError(t, err)
		require.Contains(t, string(env), "DATA=/data\x00")
	}
	stopped := decode[[]inspect.Proc](t, c.ok(t, "stop", "demo", "--reason", "new data", "-o", "json"))
	require.Len(t, stopped, 4)
	for _, r := range stopped {
		require.Equal(t, "new data", r.Reason)
		require.Equal(t, "stopped", r.Status)
		require.NotNil(t, r.ExitCode)
		require.Zero(t, *r.ExitCode)
		require.ErrorIs(t, syscall.Kill(r.PID, 0), syscall.ESRCH)
	}
	require.Zero(t, b.Exit(t), b.Err)
	require.Contains(t, b.Err.String(), "mesh demo was stopped")
	c.eventually(t, func(r result) bool { return r.code == 0 && r.out == "[]\n" }, "procs", "-o", "json")
	c.eventually(t, func(r result) bool { return r.code == 0 && strings.Contains(r.out, up.Mesh) }, "procs", "--all")
	r := c.client(t, "stop", "demo")
	require.Equal(t, cli.ExitNotFound, r.code)
}

func TestUp_ctrlCStopsItsMesh(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	b, _ := c.up(t, "one", "--per-host", "gpu=2")
	r := c.client(t, "up", "one")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Contains(t, r.err, `name one is taken by mesh one-`)
	require.Zero(t, exit(t, b, os.Interrupt), b.Err)
	require.Contains(t, b.Err.String(), "stopping one-")
	require.Equal(t, "[]\n", c.ok(t, "procs", "-o", "json"))
}

func TestLogs_followNeitherLosesNorRepeatsLines(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	_, up := c.up(t, "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	require.Equal(t, "talker", up.Type)
	for _, what := range []string{"one", "two", "three"} {
		c.ok(t, "cast", "demo", "talker", "talk", `"`+what+`"`)
	}
	c.ok(t, "call", "demo[gpu=1]", "talker", "grumble", `"ouch"`)
	require.Equal(t, "[host=0,gpu=0] two from 0\n[host=0,gpu=0] three from 0\n",
		c.ok(t, "logs", "demo[gpu=0]", "--tail", "2"))
	records := decode[[]logs.Record](t, c.ok(t, "logs", "demo", "-o", "json"))
	require.Len(t, records, 7)
	require.False(t, records[6].Time.IsZero())
	records[6].Time = time.Time{}
	require.Equal(t, logs.Record{Rank: 1, Point: "host=0,gpu=1", Stream: "stderr", Line: "ouch"}, records[6])

	b := start(t, c.env, "logs", "demo[gpu=1]", "-f", "--tail", "1")
	require.Equal(t, "[host=0,gpu=1] three from 1", b.Out.Line(t))
	require.Equal(t, "[host=0,gpu=1 stderr] ouch", b.Out.Line(t))
	for _, what := range []string{"four", "five"} {
		c.ok(t, "cast", "demo", "talker", "talk", `"`+what+`"`)
	}
	require.Equal(t, "[host=0,gpu=1] four from 1", b.Out.Line(t))
	require.Equal(t, "[host=0,gpu=1] five from 1", b.Out.Line(t))
	require.Zero(t, exit(t, b, os.Interrupt), b.Err)
	require.Empty(t, b.Err.String())
}

func TestUp_showsLinesOfItsMesh(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	b := start(t, c.env, "up", "--per-host", "gpu=2")
	var nats string
	var shown []string
	for nats == "" || !strings.Contains(shown[len(shown)-1], "Ctrl-C") {
		shown = append(shown, b.Out.Line(t))
		if line := strings.TrimSpace(shown[len(shown)-1]); strings.HasPrefix(line, "nats ") {
			nats = line
		}
	}
	require.Contains(t, shown[0], "host=2,gpu=2, 4 procs on 2 hosts (a, b), actor counter in each")
	require.Contains(t, shown, "  castnet call 'demo[host=0,gpu=0]' counter add 1")
	require.Contains(t, shown, "  castnet cast demo counter add 1 --reduce sum")
	require.Equal(t, "nats req castnet.v1.default.cast.demo.counter.add.u-anon.x 1 -H Castnet-Reduce:sum", nats)
	require.Zero(t, exit(t, b, os.Interrupt))
	_, err := subjects.ParseMeshID(strings.Fields(shown[0])[0])
	require.NoError(t, err)
}

func TestCompletion_usesTheLiveBusAndIsSilentWithoutOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.up(t, "--per-host", "gpu=2")
	suggestions := func(args ...string) []string {
		r := c.client(t, append([]string{"__complete"}, args...)...)
		lines := strings.Split(strings.TrimSpace(r.out), "\n")
		return lines[:len(lines)-1]
	}
	c.requireCompletions(t, "demo\n:", "cast", "d")
	c.requireCompletions(t, "counter\n:", "call", "demo", "")
	c.requireCompletions(t, "add\nget\nreset\n:", "call", "demo", "counter", "")
	require.Empty(t, suggestions("call", "demo", "counter", "add", ""))
	require.Empty(t, suggestions("stop", "x"))
	require.Equal(t, []string{"table", "json", "ndjson"}, suggestions("hosts", "-o", ""))
	require.Equal(t, casting.CollectModes(), suggestions("cast", "--collect", ""))
	require.Equal(t, casting.ReducerExamples(), suggestions("cast", "--reduce", ""))
	require.Equal(t, []string{"host"}, suggestions("cast", "--one-per", ""))
	require.Empty(t, suggestions("cast", "--batch-size", ""))
	r := c.client(t, "-s", "nats://127.0.0.1:1", "__complete", "-s", "nats://127.0.0.1:1", "cast", "")
	require.Zero(t, r.code)
	require.NotContains(t, r.err, "castnet:")
}

func TestBadInput_errorNamesWhatWasExpected(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.up(t, "--per-host", "gpu=2")
	cases := []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"nonsense"}, cli.ExitUsage, []string{`unknown command "nonsense"`, "usage: "}},
		{[]string{"cats"}, cli.ExitUsage,
			[]string{`unknown command "cats" for "castnet": did you mean`, "usage: "}},
		{[]string{"mesh", "shwo", "demo"}, cli.ExitUsage,
			[]string{`unknown command "shwo" for "castnet mesh": did you mean show?`, "usage: "}},
		{[]string{"config", "nonsense"}, cli.ExitUsage,
			[]string{`unknown command "nonsense" for "castnet config"`}},
		{[]string{"hosts", "cordno", "a"}, cli.ExitUsage,
			[]string{`unknown command "cordno" for "castnet hosts": did you mean cordon?`, "usage: castnet hosts"}},
		{[]string{"detach", "--help"}, cli.ExitUsage, []string{`unknown command "detach" for "castnet"`, "usage: "}},
		{[]string{"-h", "config", "nonsense"}, cli.ExitUsage,
			[]string{`unknown command "nonsense" for "castnet config"`}},
		{[]string{"hosts", "cordno", "a", "-h"}, cli.ExitUsage,
			[]string{`unknown command "cordno" for "castnet hosts": did you mean cordon?`, "usage: castnet hosts"}},
		{[]string{"adopt", "demo", "--epoch", "x"}, cli.ExitUsage,
			[]string{`"x" for --epoch: want a whole number`}},
		{[]string{"cast", "demo"}, cli.ExitUsage,
			[]string{"castnet: want ACTOR ENDPOINT\n", "usage: castnet cast MESH[region] ACTOR ENDPOINT [JSON]"}},
		{[]string{"hosts", "--nope"}, cli.ExitUsage, []string{"--nope"}},
		{[]string{"hosts", "-o", "xml"}, cli.ExitUsage, []string{`"xml"`, "table, json or ndjson"}},
		{[]string{"hosts", "--log-level", "loud"}, cli.ExitUsage, []string{`"loud"`, "debug"}},
		{[]string{"cast", "demo[gpu=1", "counter", "get"}, cli.ExitUsage, []string{`"demo[gpu=1"`, "MESH[region]"}},
		{[]string{"cast", "de.mo", "counter", "get"}, cli.ExitUsage, []string{`"de.mo"`, "A-Z"}},
		{[]string{"cast", "demo[gpu=7]", "counter", "get"}, cli.ExitUsage, []string{`"7"`, "host=1,gpu=2"}},
		{[]string{"cast", "demo[cpu=0]", "counter", "get"}, cli.ExitUsage, []string{`"cpu"`, "host, gpu"}},
		{[]string{"cast", "demo", "counter", "add", "{"}, cli.ExitUsage, []string{`"{"`, "want JSON"}},
		{[]string{"cast", "demo", "counter", "add", "hello"}, cli.ExitUsage, []string{`"hello"`, `'"text"'`}},
		{[]string{"cast", "demo", "counter", "add", "1 2"}, cli.ExitUsage, []string{`"1 2"`, "more data after"}},
		{[]string{"cast", "demo", "counter", "get", "--reduce", "median"}, cli.ExitUsage,
			[]string{`castnet: reducer "median": no such built-in reducer`, "sum, min, max, all, any",
				"endpoint get declares"}},
		{[]string{"cast", "demo", "counter", "get", "--reduce", "top(0)"}, cli.ExitUsage,
			[]string{"top(0)", "1 or more"}},
		{[]string{"cast", "demo", "counter", "get", "--reduce", "top("}, cli.ExitUsage,
			[]string{`"top("`, "no such"}},
		{[]string{"cast", "demo", "counter", "get", "--collect", "table"}, cli.ExitUsage,
			[]string{`"table"`, `stream, gather, reduce, send or choose`}},
		{[]string{"cast", "demo", "counter", "get", "--collect", "reduce"}, cli.ExitUsage,
			[]string{`--collect reduce`, `want --reduce`}},
		{[]string{"cast", "demo", "counter", "get", "--collect", "send", "--reduce", "sum"}, cli.ExitUsage,
			[]string{`--collect send`, `--collect reduce`}},
		{[]string{"cast", "demo", "counter", "get", "--collect", "send", "--canary"}, cli.ExitUsage,
			[]string{`--canary`, `stream, gather or reduce`}},
		{[]string{"cast", "demo", "counter", "get", "--batch-size", "0"}, cli.ExitUsage,
			[]string{`"0" for "--batch-size"`, `1 or more`}},
		{[]string{"cast", "demo", "counter", "get", "--batch-delay", "soon", "--batch-size", "1"}, cli.ExitUsage,
			[]string{`"soon"`, `500ms or 5s`}},
		{[]string{"cast", "demo", "counter", "get", "--batch-delay", "1s"}, cli.ExitUsage,
			[]string{`--batch-delay 1s`, `--batch-size, --one-per or --canary`}},
		{[]string{"cast", "demo", "counter", "get", "--one-per", "G.P"}, cli.ExitUsage,
			[]string{`"G.P"`, `--one-per`}},
		{[]string{"cast", "demo", "counter", "get", "--canary=perhaps"}, cli.ExitUsage, []string{`"perhaps"`}},
		{[]string{"cast", "demo", "counter", "get", "--max-failures", "none", "--batch-size", "1"}, cli.ExitUsage,
			[]string{`"none"`, `1 or more`}},
		{[]string{"cast", "demo", "counter", "get", "--sample", "10"}, cli.ExitUsage,
			[]string{`"10" for "--sample"`, `such as 10%`}},
		{[]string{"cast", "demo", "counter", "get", "--sample", "10%", "--seed", "x"}, cli.ExitUsage,
			[]string{`"x" for "--seed"`, `whole number`}},
		{[]string{"cast", "demo", "counter", "get", "--seed", "7"}, cli.ExitUsage,
			[]string{`--seed 7`, `want --sample`}},
		{[]string{"cast", "demo", "counter", "get", "--print-nats", "--batch-size", "2"}, cli.ExitUsage,
			[]string{`--batch-size has no equivalent`}},
		{[]string{"cast", "demo", "counter", "get", "--print-nats", "--dry-run"}, cli.ExitUsage,
			[]string{`want one of --dry-run and --print-nats`}},
		{[]string{"cast", "demo", "counter", "get", "--print-nats", "--timeout", "11m"}, cli.ExitUsage,
			[]string{`--timeout 11m0s`, `10m0s`}},
		{[]string{"cast", "demo", "counter", "get", "--timeout", "0"}, cli.ExitUsage,
			[]string{`--timeout is 0s`, `more than 0`}},
		{[]string{"cast", "demo", "counter", "add", `"x"`}, cli.ExitUsage, []string{"takes int64"}},
		{[]string{"cast", "demo", "counter", "a b"}, cli.ExitUsage, []string{`"a b"`}},
		{[]string{"call", "demo", "counter", "get"}, cli.ExitUsage, []string{"call asks one rank", "host=1,gpu=2"}},
		{[]string{"cast", "nobody", "counter", "get"}, cli.ExitNotFound, []string{`"nobody"`, "demo-"}},
		{[]string{"cast", "demo", "abacus", "get"}, cli.ExitNotFound, []string{`"abacus"`, "counter-"}},
		{[]string{"cast", "demo", "counter", "guess"}, cli.ExitNotFound,
			[]string{"no such endpoint", "add, get, reset"}},
		{[]string{"cast", "demo", "counter", "guess", "--reduce", "sum"}, cli.ExitNotFound,
			[]string{"no such endpoint", "add, get, reset"}},
		{[]string{"call", "demo[gpu=0]", "counter", "guess"}, cli.ExitNotFound,
			[]string{"guess", "add, get, reset"}},
		{[]string{"stop", "demo[gpu=0]"}, cli.ExitUsage, []string{"a whole mesh", "demo[gpu=0]"}},
		{[]string{"help", "bogus"}, cli.ExitUsage, []string{`unknown command "bogus"`}},
		{[]string{"help", "cast", "bogus"}, cli.ExitUsage, []string{`unknown command "bogus" for "castnet cast"`}},
		{[]string{"wait", "demo", "--for", "ready"}, cli.ExitUsage,
			[]string{`"ready" for "--for"`, "running, live or ended"}},
		{[]string{"wait", "demo[gpu=0]"}, cli.ExitUsage, []string{"wait takes a whole mesh"}},
		{[]string{"wait", "nobody"}, cli.ExitNotFound, []string{`"nobody"`, "demo-"}},
		{[]string{"logs", "demo", "--tail", "-1"}, cli.ExitUsage, []string{"--tail is -1"}},
		{[]string{"logs", "demo", "--since", "yesterday"}, cli.ExitUsage,
			[]string{`"yesterday" for "--since"`, "2026-11-26T09:30:00Z"}},
		{[]string{"logs", "demo", "--grep", "(x"}, cli.ExitUsage,
			[]string{`"(x" for "--grep"`, "missing closing )"}},
		{[]string{"logs", "demo", "--merge", "-o", "ndjson"}, cli.ExitUsage,
			[]string{"--merge has no effect on JSON"}},
		{[]string{"logs", "demo", "--merge-window", "0s"}, cli.ExitUsage,
			[]string{"--merge-window", "more than 0"}},
		{[]string{"up", "x.y"}, cli.ExitUsage, []string{`"x.y"`}},
		{[]string{"up", "--per-host", "gpu"}, cli.ExitUsage, []string{"--per-host", `"gpu"`}},
		{[]string{"up", "other", "--per-host", "gpu=5000"}, cli.ExitUsage,
			[]string{"--per-host", "5000 procs on each host: want at most 4096"}},
		{[]string{"spawn", "other", "--per-host", "-1"}, cli.ExitUsage,
			[]string{`"-1" for "--per-host"`, "at least 1"}},
		{[]string{"up", "other", "--per-host", "host=2"}, cli.ExitUsage, []string{"host"}},
		{[]string{"up", "--params", "{"}, cli.ExitUsage, []string{"--params", `"{"`}},
		{[]string{"up", "--command", "prog"}, cli.ExitUsage, []string{`"prog"`, "absolute"}},
		{[]string{"up", "--arg", "prog"}, cli.ExitUsage, []string{`"prog"`, "--command"}},
		{[]string{"up", "--env", "A"}, cli.ExitUsage, []string{`--env "A"`, "KEY=VALUE"}},
		{[]string{"up", "--lease", "1ms"}, cli.ExitUsage, []string{"--lease is 1ms"}},
		{[]string{"up", "other", "--actor", "abacus"}, cli.ExitFailure,
			[]string{`"abacus"`, "they know counter, echo, plain"}},
		{[]string{"up", "other", "--params", `"x"`}, cli.ExitFailure, []string{"int64", "[*]"}},
		{[]string{"up", "other", "--command", "/does/not/exist"}, cli.ExitFailure, []string{"/does/not/exist"}},
		{[]string{"hosts", "-s", "nats://127.0.0.1:1"}, cli.ExitConnection,
			[]string{"127.0.0.1:1", "nothing is listening"}},
		{[]string{"hosts", "--token", "wrong"}, cli.ExitConnection, []string{c.Server.URL(), "credentials"}},
		{[]string{"up", "--token", "wrong"}, cli.ExitConnection, []string{c.Server.URL(), "credentials"}},
		{[]string{"hosts", "--namespace", "a.b"}, cli.ExitUsage, []string{`"a.b"`}},
		{[]string{"hosts", "--namespace", "empty"}, cli.ExitFailure, []string{"no host answers", "empty"}},
	}
	for _, tc := range cases {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			r := c.client(t, tc.args...)
			require.Equal(t, tc.code, r.code, r.err)
			require.Empty(t, r.out)
			require.True(t, strings.HasPrefix(r.err, "castnet: "), r.err)
			require.NotContains(t, r.err, "secret")
			for _, want := range tc.want {
				require.Contains(t, r.err, want)
			}
		})
	}
	procs := decode[[]inspect.Proc](t, c.ok(t, "procs", "-o", "json"))
	require.Len(t, procs, 2, "the failed start left nothing")
}

func TestVersion_isALineOrADocument(t *testing.T) {
	require.Equal(t, result{out: "castnet " + cli.Version() + "\n"}, runClient(t, nil, "version"))
	require.JSONEq(t, `{"version":"`+cli.Version()+`"}`, runClient(t, nil, "version", "-o", "json").out)
}

func TestRecords_haveStableNames(t *testing.T) {
	code := 3
	raw, err := json.Marshal([]any{
		inspect.Proc{Mesh: "m", Point: "p", Host: "h", PID: 1, Status: "s", Reason: "r",
			ExitCode: &code, Signal: 9},
		inspect.Actor{Current: "c", Endpoints: []string{"e"}}, logs.Record{}, casting.Reply{Error: "e"},
		casting.Coverage{}, heldmesh.Started{},
	})
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"mesh":"m","rank":0,"point":"p","host":"h","pid":1,"status":"s","reason":"r","exit_code":3,"signal":9},
		{"rank":0,"point":"","actor":"","status":"","queued":0,"handled":0,"current":"c","endpoints":["e"]},
		{"rank":0,"point":"","stream":"","line":""},
		{"rank":0,"point":"","error":"e"},
		{"asked":0,"answered":0,"failed":null,"missing":null},
		{"kind":"","mesh":"","label":"","extent":"","ranks":0,"hosts":null,"owner":""}
	]`, string(raw))
}

func TestExplain_newestMeshIsExplainedAfterItsHostsHaveForgottenIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.System(t, "s")
	require.Equal(t, cli.ExitNotFound, c.client(t, "explain", "old").code)
	c.Net.Proc().Emit(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: "old-0000000000000", Rank: 3,
		Reason: "killed by signal 9", At: time.Now()})
	r := c.eventually(t, func(r result) bool { return r.code == cli.ExitOK }, "explain", "old")
	require.Contains(t, r.out, "old-0000000000000 has ended, and no host remembers it")
	require.Contains(t, r.out, "[rank=3] failed: killed by signal 9")
}
