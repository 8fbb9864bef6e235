package shape_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
)

// said is the oracle of the selection language: a tree that answers for one point at a time.
type said struct {
	op               string // , & | or an atom: * i r
	parts            []said
	label            string
	begin, end, step int
}

// has reports whether the tree at a dimension selects a point, followed by then.
func (s said) has(e []shape.Dim, at []int, dim int, then func(dim int) bool) bool {
	switch s.op {
	case "|":
		return slices.ContainsFunc(s.parts, func(p said) bool { return p.has(e, at, dim, then) })
	case "&":
		return !slices.ContainsFunc(s.parts, func(p said) bool { return !p.has(e, at, dim, then) })
	case ",":
		if len(s.parts) == 1 {
			return s.parts[0].has(e, at, dim, then)
		}
		rest := said{op: ",", parts: s.parts[1:]}
		return s.parts[0].has(e, at, dim, func(next int) bool { return rest.has(e, at, next, then) })
	}
	if s.label != "" {
		dim = slices.IndexFunc(e, func(d shape.Dim) bool { return d.Label == s.label })
	}
	in := false
	for i := s.begin; i < s.end; i += s.step {
		in = in || i == at[dim]
	}
	return (in || s.op == "*") && then(dim+1)
}

func (s said) ranks(e shape.Extent) []int {
	out := []int{}
	for _, p := range dumbOf(e).ranks {
		if s.has(e.Dims(), p.coords, 0, func(int) bool { return true }) {
			out = append(out, p.base)
		}
	}
	return out
}

func (s said) String() string {
	label := ""
	if s.label != "" {
		label = s.label + "="
	}
	switch s.op {
	case "*":
		return label + "*"
	case "i":
		return label + fmt.Sprint(s.begin)
	case "r":
		return label + fmt.Sprintf("%d:%d:%d", s.begin, s.end, s.step)
	}
	var parts []string
	for _, p := range s.parts {
		text := p.String()
		if len(p.parts) > 0 {
			text = "(" + text + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " "+s.op+" ")
}

// genSaid draws a tree over the dimensions from one up to before another. Each has some size at
// least.
func genSaid(t *rapid.T, from, to, size, deep int) said {
	ops := []string{"*", "i", "r"}
	if deep > 0 {
		ops = append(ops, "|", "&", "|")
		if to-from > 1 {
			ops = append(ops, ",", ",", ",")
		}
	}
	s := said{op: rapid.SampledFrom(ops).Draw(t, "op"), step: 1}
	switch s.op {
	case "|", "&":
		for range rapid.IntRange(2, max(2, deep)).Draw(t, "parts") { // few further down: they multiply
			s.parts = append(s.parts, genSaid(t, from, to, size, deep-1))
		}
	case ",":
		for from < to && len(s.parts) < 3 {
			end := rapid.IntRange(from+1, to).Draw(t, "until")
			s.parts = append(s.parts, genSaid(t, from, end, size, deep-1))
			from = end
		}
	default:
		s.begin = rapid.IntRange(0, size-1).Draw(t, "begin")
		s.end = s.begin + 1
		if s.op == "r" {
			s.end, s.step = rapid.IntRange(s.begin+1, size+2).Draw(t, "end"), rapid.IntRange(1, 3).Draw(t, "step")
		}
	}
	return s
}

// genSelection draws a text of the language for an extent, and its ranks.
func genSelection(t *rapid.T, e shape.Extent) ([]int, shape.Selection) {
	dims := e.Dims()
	if len(dims) == 0 {
		if rapid.Bool().Draw(t, "none") {
			return []int{}, must(shape.ParseSelection(e, "none"))
		}
		return []int{0}, must(shape.ParseSelection(e, rapid.SampledFrom([]string{"", "*", "0", "(0|*)"}).
			Draw(t, "text")))
	}
	smallest := slices.MinFunc(dims, func(a, b shape.Dim) int { return a.Size - b.Size }).Size
	tree := genSaid(t, 0, len(dims), smallest, 3)
	if rapid.Bool().Draw(t, "labelled") { // a chain of labels, in any order
		tree = said{op: ","}
		for _, at := range rapid.Permutation(indices(dims)).Draw(t, "order") {
			atom := genSaid(t, 0, 1, dims[at].Size, 0)
			atom.label = dims[at].Label
			tree.parts = append(tree.parts, atom)
		}
		tree.parts = tree.parts[:rapid.IntRange(1, len(dims)).Draw(t, "named")]
		if at := len(tree.parts) - 1; at > 0 && tree.parts[at-1].label == before(dims, tree.parts[at].label) {
			tree.parts[at].label = "" // it comes next anyway
		}
	}
	return tree.ranks(e), must(shape.ParseSelection(e, tree.String()))
}

func indices(dims []shape.Dim) []int {
	var out []int
	for i := range dims {
		out = append(out, i)
	}
	return out
}

// before is the label before another.
func before(dims []shape.Dim, label string) string {
	for i := 1; i < len(dims); i++ {
		if dims[i].Label == label {
			return dims[i-1].Label
		}
	}
	return ""
}

// ranksOf lists the ranks of a selection; never nil.
func ranksOf(s shape.Selection) []int { return append([]int{}, slices.Collect(s.Ranks())...) }

// requireSelects compares every reading of a selection with a list of ranks.
func requireSelects(t require.TestingT, want []int, s shape.Selection) {
	require.Equal(t, want, ranksOf(s), "%s", s) // SHP-7
	e := s.Extent()
	require.Equal(t, len(want) == 0, s.IsEmpty())
	for rank := -1; rank <= e.NumRanks(); rank++ {
		require.Equal(t, slices.Contains(want, rank), s.ContainsRank(rank), "%d in %s", rank, s)
	}
	for _, p := range dumbOf(e).ranks {
		require.Equal(t, slices.Contains(want, p.base), must(s.Contains(p.coords...)))
	}
	again := must(shape.ParseSelection(e, s.String())) // SHP-4
	require.Equal(t, s.String(), again.String())
	require.True(t, s.Equal(again))
	require.Equal(t, want, ranksOf(again))
	union := map[int]bool{}
	regions := slices.Collect(s.Regions())
	for i, r := range regions {
		for _, base := range r.Ranks() {
			union[base] = true
		}
		for j, o := range regions { // SHP-7
			require.True(t, i == j || r.SubsetOf(o) != nil, "%s is within %s", r, o)
		}
	}
	require.Len(t, union, len(want))
	r, err := s.Region()
	require.Equal(t, len(regions) == 1, err == nil)
	if err == nil {
		require.Equal(t, want, baseRanks(r))
	} else {
		require.ErrorIs(t, err, shape.ErrNotRegion)
		require.ErrorAs(t, err, new(*shape.Error))
	}
	require.Equal(t, len(want) == e.NumRanks() && len(regions) == 1, s.String() == "*")
	require.Equal(t, len(want) == 0, s.String() == "none")
}

func TestSelection_agreesWithTheOracle(t *testing.T) { // SHP-4, SHP-7
	rapid.Check(t, func(t *rapid.T) {
		want, s := genSelection(t, genAny.Draw(t, "extent"))
		requireSelects(t, want, s)
	})
}

func TestSelection_algebraAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genAny.Draw(t, "extent")
		inA, a := genSelection(t, e)
		inB, b := genSelection(t, e)
		either, both := []int{}, []int{}
		for rank := range e.NumRanks() {
			a, b := slices.Contains(inA, rank), slices.Contains(inB, rank)
			if a || b {
				either = append(either, rank)
			}
			if a && b {
				both = append(both, rank)
			}
		}
		requireSelects(t, inA, a)
		requireSelects(t, inB, b)
		if len(inA) > 0 && len(inB) > 0 {
			requireSelects(t, either, must(shape.ParseSelection(e, fmt.Sprintf("(%s) | (%s)", a, b))))
			requireSelects(t, both, must(shape.ParseSelection(e, fmt.Sprintf("(%s) & (%s)", a, b))))
		}
	})
}

// Any two ranges of one dimension: random trees seldom have steps that meet and part.
func TestSelection_allRangesWithStepsAgreeWithTheOracle(t *testing.T) {
	const size = 10
	all := map[string][]int{}
	for begin := range size {
		for end := begin + 1; end <= size; end++ {
			for step := 1; step <= 4; step++ {
				var ranks []int
				for i := begin; i < end; i += step {
					ranks = append(ranks, i)
				}
				all[fmt.Sprintf("%d:%d:%d", begin, ranks[len(ranks)-1]+1, step)] = ranks
			}
		}
	}
	line := shape.Of("x", size)
	for textA, inA := range all {
		for textB, inB := range all {
			in := func(rank int) bool { return slices.Contains(inB, rank) }
			either := slices.Compact(slices.Sorted(slices.Values(slices.Concat(inA, inB))))
			both := slices.DeleteFunc(slices.Clone(inA), func(rank int) bool { return !in(rank) })
			require.Equal(t, either, ranksOf(must(shape.ParseSelection(line, textA+" | "+textB))))
			require.Equal(t, append([]int{}, both...), ranksOf(must(shape.ParseSelection(line, textA+" & "+textB))))
		}
	}
}

func TestSelection_ofRanksContainsExactlyThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genAny.Draw(t, "extent")
		ranks := rapid.SliceOf(rapid.IntRange(0, e.NumRanks()-1)).Draw(t, "ranks")
		kept := slices.Clone(ranks)
		s := must(shape.SelectionOfRanks(e, ranks))
		require.Equal(t, kept, ranks, "the caller's slice is left alone")
		slices.Sort(kept)
		requireSelects(t, append([]int{}, slices.Compact(kept)...), s)
		require.Equal(t, s.String(), cmp.Or(shape.Describe(e, ranks), "none"))
	})
	_, err := shape.SelectionOfRanks(shape.Of("x", 2), []int{0, 2})
	require.EqualError(t, err, `rank "2": want 0 to 1, in x=2`)
	_, err = shape.SelectionOfRanks(shape.Of("", 2), nil)
	require.ErrorAs(t, err, new(*shape.Error))
}
