package shape_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/shape"
)

const (
	million = 1 << 20
	eighth  = million / 8 // for what takes long under the race detector
)

// A million ranks never need a million allocations, because each one serves thousands of ranks.
func TestShape_aMillionRanksNeedFewAllocations(t *testing.T) {
	e := shape.Of("host", million/8).With("gpu", 8)
	all := slices.Collect(shape.Everything(e).Ranks())
	few := shape.Of("host", eighth/8).With("gpu", 8)
	// a chessboard
	scattered := slices.DeleteFunc(slices.Clone(all[:eighth]), func(r int) bool { return (r+r/8)%2 == 0 })
	values, half := make([]int, million), make([]int, million)
	for i := range half {
		half[i] = i / (million / 2)
	}
	selection := must(shape.SelectionOfRanks(few, scattered))
	rows := must(e.Region().SliceStep("gpu", 0, 8, 3))
	for name, does := range map[string]struct {
		most float64
		do   func()
	}{
		"walk a region": {10, func() {
			for range e.Region().Ranks() {
			}
		}},
		"walk a selection":       {20, func() { drain(shape.Everything(e)) }},
		"walk many regions":      {100, func() { drain(selection) }},
		"select all ranks":       {50, func() { _ = must(shape.SelectionOfRanks(e, all)) }},
		"select scattered ranks": {500, func() { _ = must(shape.SelectionOfRanks(few, scattered)) }},
		"keep values":            {10, func() { _ = must(shape.NewValueMesh(e.Region(), values)) }},
		"compress values":        {50, func() { _ = must(shape.NewValueMesh(e.Region(), half)).Compress() }},
		"one value for all":      {50, func() { _ = must(shape.UniformMesh(e.Region(), 1)) }},
		"slice values":           {50, func() { _ = must(must(shape.NewValueMesh(e.Region(), half)).Slice(rows)) }},
		"slice runs of values":   {100, func() { _ = must(must(shape.UniformMesh(e.Region(), 1)).Slice(rows)) }},
		"values from pairs": {200,
			func() { _ = must(shape.MeshOfPairs(few.Region(), slices.All(half[:eighth]))) }},
	} {
		require.LessOrEqual(t, testing.AllocsPerRun(1, does.do), does.most, name)
	}
}

func drain(s shape.Selection) {
	for range s.Ranks() {
	}
}

// The first ranks of two billion cost as much as the first of two.
func TestSelection_iteratesTwoBillionRanksLazily(t *testing.T) { // SHP-11
	e := shape.Of("x", shape.MaxRanks/2).With("y", 2)
	for text, want := range map[string][]int{
		"*":                             {0, 1, 2},
		"::3 | 1::5,1 | 7:,0":           {0, 1, 3},
		"*,0 & *,1":                     {},
		"::2 & 1::2":                    {},
		"1073741822:":                   {2147483644, 2147483645},
		"::2,(0|1) & 1073741822 | 5, 1": {11, 2147483644, 2147483645},
	} {
		got := []int{}
		for rank := range must(shape.ParseSelection(e, text)).Ranks() {
			if got = append(got, rank); len(got) == 3 {
				break
			}
		}
		require.Equal(t, want, got, text)
	}
}

func BenchmarkSelection_ranksOfAMillion(b *testing.B) {
	s := shape.Everything(shape.Of("host", million/8).With("gpu", 8))
	b.ReportAllocs()
	for b.Loop() {
		drain(s)
	}
}

func BenchmarkSelection_ofAMillionRanks(b *testing.B) {
	e := shape.Of("host", million/8).With("gpu", 8)
	ranks := slices.Collect(shape.Everything(e).Ranks())[1:]
	b.ReportAllocs()
	for b.Loop() {
		_ = must(shape.SelectionOfRanks(e, ranks))
	}
}

func BenchmarkParseSelection(b *testing.B) {
	e := shape.Of("host", 12_500).With("gpu", 8)
	b.ReportAllocs()
	for b.Loop() {
		_ = must(shape.ParseSelection(e, "(::2 & 100:900 | 5000:), 1:4"))
	}
}

func BenchmarkRegion_subset(b *testing.B) {
	all := shape.Of("host", million/8).With("gpu", 8).Region()
	part := must(must(all.SliceStep("host", 1, million/8, 3)).Slice("gpu", 2, 5))
	b.ReportAllocs()
	for b.Loop() {
		_ = part.SubsetOf(all)
	}
}

func BenchmarkValueMesh_compressAMillion(b *testing.B) {
	r := shape.Of("x", million).Region()
	m := must(shape.NewValueMesh(r,
		must(shape.MeshOfRuns(r, "up", shape.Run[string]{Begin: 9, End: 99, Value: "down"})).Values()))
	b.ReportAllocs()
	for b.Loop() {
		_ = m.Compress()
	}
}

func BenchmarkValueMesh_sliceAMillion(b *testing.B) {
	r := shape.Of("host", million/8).With("gpu", 8).Region()
	m := must(shape.MeshOfRuns(r, "up", shape.Run[string]{Begin: 9, End: 99, Value: "down"}))
	part := must(r.SliceStep("gpu", 1, 8, 2))
	b.ReportAllocs()
	for b.Loop() {
		_ = must(m.Slice(part))
	}
}
