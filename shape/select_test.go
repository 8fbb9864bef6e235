package shape_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
)

// baseRanks lists the base ranks of a region.
func baseRanks(r shape.Region) []int {
	ranks := []int{}
	for _, base := range r.Ranks() {
		ranks = append(ranks, base)
	}
	return ranks
}

func TestSelect_acceptsCommonNotation(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 4)
	for text, want := range map[string][]int{
		"":                  {0, 1, 2, 3, 4, 5, 6, 7},
		"*":                 {0, 1, 2, 3, 4, 5, 6, 7},
		"host=*,gpu=*":      {0, 1, 2, 3, 4, 5, 6, 7},
		"host=1":            {4, 5, 6, 7},
		"gpu=3":             {3, 7},
		"gpu=0:2":           {0, 1, 4, 5},
		"gpu=1:":            {1, 2, 3, 5, 6, 7},
		"gpu=:1":            {0, 4},
		"gpu=:":             {0, 1, 2, 3, 4, 5, 6, 7},
		"gpu=0:4:3":         {0, 3, 4, 7},
		"gpu=::2":           {0, 2, 4, 6},
		"gpu=2:99":          {2, 3, 6, 7},
		"host=0:2,gpu=*":    {0, 1, 2, 3, 4, 5, 6, 7},
		"gpu=3,host=1":      {7},
		" host = 1 , gpu=3": {7},
		"1":                 {4, 5, 6, 7},
		"1,3":               {7},
		"*,0:2":             {0, 1, 4, 5},
		"host=1,::2":        {4, 6},
		"0:2 & 1, 3 | 1,3":  {7},
	} {
		require.Equal(t, want, baseRanks(must(shape.Select(e, text))), "%q", text)
	}
}

func TestSelect_agreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genExtent.Draw(t, "extent")
		want := dumbOf(e)
		var parts []string
		for at, d := range e.Dims() {
			begin := rapid.IntRange(0, d.Size-1).Draw(t, "begin")
			end, step := rapid.IntRange(begin+1, d.Size+2).Draw(t, "end"), rapid.IntRange(1, 3).Draw(t, "step")
			switch rapid.IntRange(0, 4).Draw(t, "how") {
			case 0: // not named
			case 1:
				parts = append(parts, d.Label+"=*")
			case 2:
				parts = append(parts, fmt.Sprintf("%s=%d", d.Label, begin))
				want = want.slice(at, begin, begin+1, 1)
			case 3:
				parts = append(parts, fmt.Sprintf("%s=%d:%d", d.Label, begin, end))
				want = want.slice(at, begin, end, 1)
			case 4:
				parts = append(parts, fmt.Sprintf("%s=%d:%d:%d", d.Label, begin, end, step))
				want = want.slice(at, begin, end, step)
			}
		}
		text := strings.Join(rapid.Permutation(parts).Draw(t, "order"), ",")
		requireSame(t, want, must(shape.Select(e, text)), e.NumRanks())
	})
}

func FuzzSelect(f *testing.F) {
	for _, text := range []string{"", "*", "host=1", "gpu=0:2,host=*", "gpu=::3", "z=1:2:3:4", "host=1 | gpu=2",
		"1,0:2", "(0|1),3&*"} {
		f.Add(text)
	}
	e := shape.Of("host", 3).With("gpu", 7)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := shape.Select(e, text)
		if err != nil {
			return
		}
		require.Positive(t, r.NumRanks())
		for view, base := range r.Ranks() {
			require.Less(t, base, e.NumRanks())
			back, ok := r.ViewRank(base)
			require.True(t, ok)
			require.Equal(t, view, back)
		}
		require.True(t, r.Equal(must(shape.ParseRegion(r.String()))))
	})
}

func TestDescribe_examples(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 4)
	for want, ranks := range map[string][]int{
		"":                              {},
		"*":                             {7, 6, 5, 4, 3, 2, 1, 0},
		"host=1,gpu=3":                  {7, 7},
		"host=1,gpu=*":                  {4, 5, 6, 7},
		"host=*,gpu=1:3":                {1, 2, 5, 6},
		"host=0,gpu=0 | host=1,gpu=2:4": {0, 6, 7},
		"host=0,gpu=* | host=1,gpu=0":   {0, 1, 2, 3, 4},
	} {
		require.Equal(t, want, shape.Describe(e, ranks))
	}
	require.Equal(t, "host=0,gpu=0", shape.Describe(e, []int{-1, 0, 8}), "ranks outside are left out")
	require.Equal(t, "*", shape.Describe(shape.Unit(), []int{0}))
}

func TestDescribe_termsSelectExactlyTheSet(t *testing.T) { // SHP-4
	rapid.Check(t, func(t *rapid.T) {
		e := genExtent.Draw(t, "extent")
		set := map[int]bool{}
		for _, r := range rapid.SliceOf(rapid.IntRange(0, e.NumRanks()-1)).Draw(t, "ranks") {
			set[r] = true
		}
		text := shape.Describe(e, slices.Collect(maps.Keys(set)))
		if len(set) == 0 {
			require.Empty(t, text)
			return
		}
		covered := map[int]bool{}
		for term := range strings.SplitSeq(text, " | ") {
			for _, base := range baseRanks(must(shape.Select(e, term))) {
				require.True(t, set[base], "%s covers %d outside the set", term, base)
				require.False(t, covered[base], "%s covers %d again", term, base)
				covered[base] = true
			}
		}
		require.Equal(t, set, covered)
	})
}

// The work grows with the named ranks: a hundred thousand of them take hardly any time.
func BenchmarkDescribe_allButOneOf100k(b *testing.B) {
	e := shape.Of("host", 12_500).With("gpu", 8)
	ranks := baseRanks(e.Region())[1:]
	for b.Loop() {
		_ = shape.Describe(e, ranks)
	}
}
