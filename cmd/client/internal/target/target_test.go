package target

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

func TestParseTarget_splitsNameAndRegion(t *testing.T) {
	for text, want := range map[string]Target{
		"demo":                    {Name: "demo"},
		"demo[]":                  {Name: "demo"},
		"demo[host=0:2,gpu=*]":    {Name: "demo", Region: "host=0:2,gpu=*"},
		"demo-7kd93x0b5m2qa[g=1]": {Name: "demo-7kd93x0b5m2qa", Region: "g=1"},
	} {
		got, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "demo[", "demo]", "[a=1]", "a.b", "a b", "demo[a=1]]x", "demo[[a=1]",
		"demo[a=1]b", "../x"} {
		_, err := Parse(text)
		require.Error(t, err, text)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err), text)
	}
}

func FuzzParseTarget_textReadsBack(f *testing.F) {
	f.Add("demo[host=0:2,gpu=*]")
	f.Add("demo")
	f.Add("a[b]]")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil {
			return
		}
		require.Equal(t, strings.TrimSuffix(text, "[]"), got.String())
	})
}

func TestPointOf_parsesAsARegionOfOneRank(t *testing.T) {
	e := shape.Of("host", 2).With("zone", 1).With("gpu", 3)
	for rank := range e.NumRanks() {
		r, err := shape.Select(e, inspect.Point(e, rank))
		require.NoError(t, err)
		require.Equal(t, 1, r.NumRanks())
		require.True(t, r.Contains(rank))
	}
	require.Equal(t, "host=1,zone=0,gpu=2", inspect.Point(e, 5))
	require.Equal(t, "0", inspect.Point(shape.Unit(), 0))
	require.Equal(t, "9", inspect.Point(e, 9), "an invalid rank is shown unchanged")
}

func TestPlace_namesRanksOfTheWholeMesh(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 3)
	r, err := shape.Select(e, "host=1,gpu=1:3")
	require.NoError(t, err)
	p := Resolved{Base: e, Region: r}
	require.Equal(t, 5, p.Rank(1))
	require.Equal(t, "host=1,gpu=2", p.Point(1))
}
