package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/shape"
)

func TestParseTarget_splitsNameAndRegion(t *testing.T) {
	for text, want := range map[string]target{
		"demo":                    {name: "demo"},
		"demo[]":                  {name: "demo"},
		"demo[host=0:2,gpu=*]":    {name: "demo", region: "host=0:2,gpu=*"},
		"demo-7kd93x0b5m2qa[g=1]": {name: "demo-7kd93x0b5m2qa", region: "g=1"},
	} {
		got, err := parseTarget(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "demo[", "demo]", "[a=1]", "a.b", "a b", "demo[a=1]]x", "demo[[a=1]", "demo[a=1]b", "../x"} {
		_, err := parseTarget(text)
		require.Error(t, err, text)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err), text)
	}
}

func TestBadInput_isReportedWithoutAnyHost_CLIC2(t *testing.T) {
	t.Parallel()
	env := append(baseEnv(t.TempDir()), "NATS_URL=nats://127.0.0.1:1", "NATS_TOKEN=secret") // where nothing is
	for want, args := range map[string][]string{
		`selection "gpu=x": want an index`:    {"procs", "demo[gpu=x]"},
		`selection "gpu=0:2 1": want an oper`: {"cast", "demo[gpu=0:2 1]", "counter", "get"},
		`actor "a.b": want`:                   {"call", "demo", "a.b", "get"},
		`where "demo/x": want MESH/RANK`:      {"where", "demo/x"},
		`proc ID "x/y/z": want mesh/rank.gen`: {"config", "show", "x/y/z"},
		`mesh "a.b": want`:                    {"config", "show", "a.b"},
	} {
		r := runClient(t, env, args...)
		require.Equal(t, cli.ExitUsage, r.code, "%v: %s", args, r.err)
		require.Contains(t, r.err, want)
	}
	require.Equal(t, cli.ExitConnection, runClient(t, env, "procs", "demo[gpu=7,cpu=1]").code, "another mesh may have these")
}

func FuzzParseTarget_textReadsBack(f *testing.F) {
	f.Add("demo[host=0:2,gpu=*]")
	f.Add("demo")
	f.Add("a[b]]")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTarget(text)
		if err != nil {
			return
		}
		require.Equal(t, strings.TrimSuffix(text, "[]"), got.String())
	})
}

func TestPointOf_parsesAsARegionOfOneRank(t *testing.T) {
	e := shape.Of("host", 2).With("zone", 1).With("gpu", 3)
	for rank := range e.NumRanks() {
		r, err := shape.Select(e, formatPoint(e, rank))
		require.NoError(t, err)
		require.Equal(t, 1, r.NumRanks())
		require.True(t, r.Contains(rank))
	}
	require.Equal(t, "host=1,zone=0,gpu=2", formatPoint(e, 5))
	require.Equal(t, "0", formatPoint(shape.Unit(), 0))
	require.Equal(t, "9", formatPoint(e, 9), "what is no rank is shown as it came")
}

func TestPlace_namesRanksOfTheWholeMesh(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 3)
	r, err := shape.Select(e, "host=1,gpu=1:3")
	require.NoError(t, err)
	p := resolvedTarget{base: e, region: r}
	require.Equal(t, 5, p.rank(1))
	require.Equal(t, "host=1,gpu=2", p.point(1))
}
