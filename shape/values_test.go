package shape_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
)

// requireValues compares every reading of a mesh with the values by rank.
func requireValues[T comparable](t require.TestingT, r shape.Region, want []T, m shape.ValueMesh[T]) {
	require.True(t, r.Equal(m.Region()))
	require.Equal(t, len(want), m.Len())
	require.Equal(t, append([]T{}, want...), append([]T{}, m.Values()...))
	for rank, v := range want {
		got, ok := m.At(rank)
		require.True(t, ok)
		require.Equal(t, v, got)
	}
	for _, outside := range []int{-1, len(want)} {
		got, ok := m.At(outside)
		require.False(t, ok)
		require.Zero(t, got)
	}
	next := 0
	for p, v := range m.All() {
		require.Equal(t, next, p.Rank())
		require.True(t, r.Extent().Equal(p.Extent()))
		require.Equal(t, want[next], v)
		next++
	}
	require.Equal(t, len(want), next)
	end := 0
	for run := range m.Runs() {
		require.Equal(t, end, run.Begin)
		require.Greater(t, run.End, run.Begin)
		require.True(t, end == 0 || want[end-1] != run.Value, "equal neighbours are one run")
		for ; end < run.End; end++ {
			require.Equal(t, want[end], run.Value)
		}
	}
	require.Equal(t, len(want), end)
}

// requireBothForms compares a mesh, and all derived forms of it, with the values (SHP-6).
func requireBothForms[T comparable](t require.TestingT, r shape.Region, want []T, m shape.ValueMesh[T]) {
	requireValues(t, r, want, m)
	small := m.Compress()
	requireValues(t, r, want, small)
	require.Equal(t, small, small.Compress(), "compressing again changes nothing")
	requireValues(t, r, want, must(m.Pack().Mesh()))
	var back, text shape.ValueMesh[T]
	require.NoError(t, json.Unmarshal(must(json.Marshal(m)), &back))
	requireValues(t, r, want, back)
	require.NoError(t, text.UnmarshalText(must(m.MarshalText())))
	requireValues(t, r, want, text)
	again := shape.MapValues(m, func(v T) T { return v })
	requireValues(t, r, want, again)
}

// genRuns draws values for the ranks of a region with few different neighbours.
func genRuns(t *rapid.T, n int) []string {
	var values []string
	for len(values) < n {
		v := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "value")
		for range min(n-len(values), rapid.IntRange(1, 40).Draw(t, "run")) {
			values = append(values, v)
		}
	}
	return values
}

func TestValueMesh_encodingsReadTheSame(t *testing.T) { // SHP-6
	rapid.Check(t, func(t *rapid.T) {
		e := genAny.Draw(t, "extent")
		_, r := genCut(t, e)
		want := genRuns(t, r.NumRanks())
		dense := must(shape.NewValueMesh(r, want))
		requireBothForms(t, r, want, dense)
		runs := slices.DeleteFunc(slices.Collect(dense.Runs()),
			func(run shape.Run[string]) bool { return run.Value == "a" })
		runs = rapid.Permutation(runs).Draw(t, "runs")
		requireBothForms(t, r, want, must(shape.MeshOfRuns(r, "a", runs...)))
		var ranks []int
		for rank := range want {
			ranks = append(ranks, rank)
		}
		ranks = rapid.Permutation(ranks).Draw(t, "ranks")
		again := rapid.SliceOfN(rapid.SampledFrom(ranks), 0, 3).Draw(t, "told before")
		requireBothForms(t, r, want, must(shape.MeshOfPairs(r, func(yield func(int, string) bool) {
			for _, rank := range again {
				if !yield(rank, "old") {
					return
				}
			}
			for _, rank := range ranks {
				if !yield(rank, want[rank]) {
					return
				}
			}
		})))
		one := must(shape.UniformMesh(r, 7))
		requireBothForms(t, r, slices.Repeat([]int{7}, r.NumRanks()), one)
		mapped := shape.Map(dense.Compress(), func(p shape.Point, v string) string { return p.String() + v })
		for rank, v := range mapped.Values() {
			require.Equal(t, must(r.Extent().Point(rank)).String()+want[rank], v)
		}
	})
}

func TestValueMesh_slicesAgreeWithTheOracle(t *testing.T) { // SHP-6
	rapid.Check(t, func(t *rapid.T) {
		e := genAny.Draw(t, "extent")
		_, r := genCut(t, e)
		want := genRuns(t, r.NumRanks())
		dense := must(shape.NewValueMesh(r, want))
		part := r
		for _, d := range r.Extent().Dims() {
			begin := rapid.IntRange(0, d.Size-1).Draw(t, "begin")
			part = must(part.SliceStep(d.Label, begin, rapid.IntRange(begin+1, d.Size).Draw(t, "end"),
				rapid.IntRange(1, 3).Draw(t, "step")))
		}
		var wanted []string
		for _, base := range part.Ranks() {
			view, _ := r.ViewRank(base)
			wanted = append(wanted, want[view])
		}
		requireBothForms(t, part, wanted, must(dense.Slice(part)))
		requireBothForms(t, part, wanted, must(dense.Compress().Slice(part)))
		if r.NumRanks() < e.NumRanks() {
			_, err := dense.Slice(e.Region())
			require.ErrorContains(t, err, "base rank")
		}
	})
	_, err := shape.ValueMesh[int]{}.Slice(shape.Unit().Region())
	require.EqualError(t, err, `part of a mesh "": want a mesh with values`)
}

// Steps of 3 over blocks of 4 with gaps of 2 hit blocks only, but not at an even distance. The test
// places a run's end and a cut anywhere around there.
func TestValueMesh_slicesNextToABorderAgreeWithTheOracle(t *testing.T) { // SHP-6
	r := shape.Of("host", 4).With("gpu", 4).Region()
	for border := 1; border < r.NumRanks(); border++ {
		m := must(shape.MeshOfRuns(r, 0, shape.Run[int]{Begin: 0, End: border, Value: 1}))
		for cut := range 64 {
			rows := must(r.SliceStep("host", cut%2, 4, 1+cut/2%4))
			part := must(rows.SliceStep("gpu", cut/8%2, 4-cut/16%2, 1+cut/32%2))
			got := must(m.Slice(part))
			for view, base := range part.Ranks() {
				v, ok := got.At(view)
				require.True(t, ok)
				require.Equal(t, base < border, v == 1, "rank %d of %s with 1 below rank %d",
					base, part, border)
			}
		}
	}
}

func TestValueMesh_slicesOverGapsVisitEachRank(t *testing.T) {
	whole := must(shape.ParseRegion("x=50/6,y=4/1"))
	m := must(shape.MeshOfRuns(whole, "left", shape.Run[string]{Begin: 100, End: 200, Value: "right"}))
	part := must(shape.ParseRegion("x=100/3"))
	got := must(m.Slice(part))
	requireValues(t, part, append(slices.Repeat([]string{"left"}, 50),
		slices.Repeat([]string{"right"}, 50)...), got)
}

func TestValueMesh_twoBillionRanksCostOnlyTheirRuns(t *testing.T) { // SHP-11
	r := shape.Of("host", 1<<27).With("gpu", 15).Region()
	m := must(shape.MeshOfRuns(r, "up", shape.Run[string]{Begin: 20, End: 1 << 29, Value: "down"}))
	require.Equal(t, 2, len(m.Pack().Values))
	part := must(must(r.SliceStep("host", 1, 1<<27, 2)).SliceStep("gpu", 0, 15, 7))
	got := must(m.Slice(part))
	var text []string
	for run := range got.Runs() {
		text = append(text, fmt.Sprint(run.Begin, ":", run.End, " ", run.Value))
	}
	require.Equal(t, []string{"0:1 up", "1:53687091 down", "53687091:201326592 up"}, text)
	for view, base := range map[int]int{0: 15, 1: 22, 53687090: 536870909, 53687091: 536870925} {
		require.Equal(t, base, must(part.BaseRank(view)))
	}
	v, _ := shape.MapValues(got, func(s string) int { return len(s) }).At(2)
	require.Equal(t, 4, v)
	require.Equal(t, "up", must1(must(shape.UniformMesh(r, "up")).At(r.NumRanks()-1)))
	require.Equal(t, r.NumRanks(), must(shape.UniformMesh(r, struct{}{})).Len())
}

func must1[T any](v T, ok bool) T {
	if !ok {
		panic("not ok")
	}
	return v
}

func TestValueMesh_badValuesAreNamed(t *testing.T) {
	r := shape.Of("x", 4).Region()
	for _, values := range [][]int{nil, {1}, {1, 2, 3, 4, 5}} {
		_, err := shape.NewValueMesh(r, values)
		require.EqualError(t, err, fmt.Sprintf(`number of values "%d": want 4, the ranks of x=4/1`, len(values)))
	}
	for want, runs := range map[string][]shape.Run[int]{
		`run of values "2:2": want an end after the begin`: {{Begin: 2, End: 2}},
		`run of values "3:1": want an end after the begin`: {{Begin: 3, End: 1}},
		`run of values "-1:1": want ranks from 0 to 3`:     {{Begin: -1, End: 1}},
		`run of values "3:5": want ranks from 0 to 3`:      {{Begin: 3, End: 5}},
		`run of values "1:3": want no overlap with the run that ends at 2`: {{Begin: 1, End: 3},
			{Begin: 0, End: 2}},
		fmt.Sprintf(`run of values "%d:1": want ranks from 0 to 3`, math.MinInt): {{Begin: 0, End: 1},
			{Begin: math.MinInt, End: 1}},
	} {
		_, err := shape.MeshOfRuns(r, 0, runs...)
		require.EqualError(t, err, want)
	}
	for want, pairs := range map[string]map[int]int{
		`values "none for rank 0": want one for each of the 4 ranks of x=4/1`: {},
		`values "none for rank 2": want one for each of the 4 ranks of x=4/1`: {0: 1, 1: 1, 3: 1},
		`values "none for rank 3": want one for each of the 4 ranks of x=4/1`: {0: 1, 1: 1, 2: 1},
		`rank of a value "4": want 0 to 3, in x=4/1`:                          {4: 1},
		`rank of a value "-1": want 0 to 3, in x=4/1`:                         {-1: 1},
	} {
		_, err := shape.MeshOfPairs(r, maps.All(pairs))
		require.EqualError(t, err, want)
	}
	broken := shape.Of("", 1).Region()
	_, err := shape.NewValueMesh(broken, []int{})
	require.Equal(t, broken.Err(), err)
	_, err = shape.UniformMesh(broken, 1)
	require.Equal(t, broken.Err(), err)
	_, err = shape.MeshOfPairs(broken, iter.Seq2[int, int](nil))
	require.Equal(t, broken.Err(), err)
}

func TestValueMesh_zeroHasNoValues(t *testing.T) {
	var m shape.ValueMesh[int]
	require.Zero(t, m.Len())
	_, ok := m.At(0)
	require.False(t, ok)
	for range m.All() {
		t.Fatal("the zero mesh has no values")
	}
	for range m.Runs() {
		t.Fatal("the zero mesh has no runs")
	}
	require.Zero(t, m.Compress())
	require.Zero(t, must(m.Pack().Mesh()))
	require.JSONEq(t, `{"region":""}`, string(must(json.Marshal(m))))
	var back shape.ValueMesh[int]
	require.NoError(t, json.Unmarshal([]byte(`{"region":""}`), &back))
	require.Zero(t, back)
}

// Values without == stay unmerged: NaN, slices, and slices in interfaces.
func TestValueMesh_incomparableValuesAreNeverEqual(t *testing.T) {
	r := shape.Of("x", 1000).Region()
	lists := must(shape.UniformMesh(r, []int{1}))
	require.Equal(t, []int{1}, must1(lists.At(999)))
	require.Len(t, slices.Collect(lists.Runs()), 1)
	require.Len(t, lists.Pack().Runs, 1)
	require.Equal(t, 1000, must(shape.NewValueMesh(r, lists.Values())).Compress().Len())
	nan := must(shape.MeshOfRuns(r, math.NaN(), shape.Run[float64]{Begin: 5, End: 10, Value: 1}))
	require.True(t, math.IsNaN(must1(nan.At(4))) && math.IsNaN(must1(nan.At(10))))
	mixed := must(shape.MeshOfRuns[any](r, []int{1}, shape.Run[any]{Begin: 5, End: 10, Value: "x"},
		shape.Run[any]{Begin: 10, End: 20, Value: "x"}))
	require.Len(t, slices.Collect(mixed.Runs()), 3)
	require.Equal(t, []int{1}, must1(mixed.Compress().At(20)))
	type pair struct {
		Any  any
		List [1]any
	}
	pairs := must(shape.UniformMesh(r, pair{List: [1]any{func() {}}}))
	require.Len(t, slices.Collect(pairs.Compress().Runs()), 1)
}

func TestValueMesh_iterationStopsWhenAsked(t *testing.T) {
	r := shape.Of("x", 100).Region()
	for _, m := range []shape.ValueMesh[int]{must(shape.UniformMesh(r, 1)),
		must(shape.NewValueMesh(r, make([]int, 100)))} {
		for p := range m.All() {
			require.Zero(t, p.Rank())
			break
		}
		for run := range m.Runs() {
			require.Zero(t, run.Begin)
			break
		}
	}
}

func TestPacked_oversizedInputIsRefused(t *testing.T) {
	for data, want := range map[string]string{
		`{"region":"x=3/1","values":[1]}`:                                                  `number of values "1": want 3`,
		`{"region":"x=3/1"}`:                                                               `number of values "0": want 3`,
		`{"region":"x=3/1","values":[1],"runs":[{"end":2,"value":0}]}`:                     `end of the packed runs "2": want 3, the ranks of x=3/1`,
		`{"region":"x=3/1","values":[1],"runs":[{"end":4,"value":0}]}`:                     `packed run "end 4, value 0": want an end from 1 to 3`,
		`{"region":"x=3/1","values":[1],"runs":[{"end":18446744073709551615,"value":0}]}`:  `want an end from 1 to 3`,
		`{"region":"x=3/1","values":[1],"runs":[{"end":2,"value":0},{"end":2,"value":0}]}`: `want an end from 3 to 3`,
		`{"region":"x=3/1","values":[1],"runs":[{"end":3,"value":1}]}`:                     `packed run "end 3, value 1": want one of 1 values`,
		`{"region":"x=3/1","runs":[{"end":3,"value":0}]}`:                                  `want one of 0 values`,
		`{"region":"x=3"}`:                                              `region "x=3"`,
		`{"region":"x=3/1","values":["a","b","c"]}`:                     `values of a mesh: json`,
		`{"region":"x=3/1","values":[1],"runs":[{"end":-1,"value":0}]}`: `values of a mesh: json`,
		`{"region":"x=3/1","values":[1,2],"runs":[{"end":1,"value":0},{"end":3,"value":4294967295}]}`: `want one of 2 values`,
	} {
		var m shape.ValueMesh[int]
		require.ErrorContains(t, json.Unmarshal([]byte(data), &m), want, data)
		require.Zero(t, m)
	}
	_, err := shape.Packed[int]{Region: shape.Of("", 1).Region(), Runs: []shape.PackedRun{{}}}.Mesh()
	require.ErrorContains(t, err, `dimension ""`)
}

func FuzzPacked(f *testing.F) {
	for _, data := range []string{
		`{"region":""}`, `{"region":"x=3/1","values":["a","b","c"]}`,
		`{"region":"x=2147483647/1","values":["a"],"runs":[{"end":2147483647,"value":0}]}`,
		`{"region":"x=9/1","values":["a","b"],"runs":[{"end":3,"value":0},{"end":4,"value":0},{"end":9,"value":1}]}`,
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m, back shape.ValueMesh[string]
		if m.UnmarshalText(data) != nil {
			return
		}
		require.NoError(t, json.Unmarshal(must(json.Marshal(m)), &back))
		require.Equal(t, slices.Collect(m.Runs()), slices.Collect(back.Runs()))
		require.True(t, m.Region().Equal(back.Region()))
		require.True(t, m.Len() == m.Region().NumRanks() || m.Len() == 0 && m.Region().Equal(shape.Region{}))
		for _, rank := range []int{0, 1, m.Len() / 2, m.Len() - 1} {
			v, ok := m.At(rank)
			w, ok2 := back.At(rank)
			require.Equal(t, v, w)
			require.Equal(t, ok, ok2)
		}
	})
}

// wide is a value with much more memory than text.
type wide struct{ A, B, C, D, E, F string }

// TestValueMesh_decodingAllocatesAtMost64TimesItsText: it may be a peer's.
func TestValueMesh_decodingAllocatesAtMost64TimesItsText(t *testing.T) {
	const n = 100_000
	list := func(of string) string { return "[" + strings.Repeat(of+",", n-1) + of + "]" }
	for name, text := range map[string]string{
		"values of little":      fmt.Sprintf(`{"region":"x=%d/1","values":%s}`, n, list("{}")),
		"values that take more": fmt.Sprintf(`{"region":"x=%d/1","values":%s}`, n, list(`{"A":"a"}`)),
		"values of no kind":     fmt.Sprintf(`{"region":"x=%d/1","values":%s}`, n, list("0")),
		"no values":             fmt.Sprintf(`{"region":"x=%d/1","values":%s}`, n, list("null")),
		"runs of nothing":       fmt.Sprintf(`{"region":"x=%d/1","values":[{}],"runs":%s}`, n, list("{}")),
		"runs of no kind":       fmt.Sprintf(`{"region":"x=%d/1","values":[{}],"runs":%s}`, n, list("0")),
		"values in values":      fmt.Sprintf(`{"region":"x=%d/1","values":%s}`, n, list(`{"A":"],\\\",["}`)),
		"regions":               `{"region":"` + strings.Repeat("x=1/1,", n) + `"}`,
	} {
		var m shape.ValueMesh[wide]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := m.UnmarshalText([]byte(text))
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		require.LessOrEqual(t, took, uint64(64*len(text)+1<<20), "%s: %v", name, err)
		require.Equal(t, name == "values of little" || name == "values that take more" ||
			name == "values in values" || name == "no values", err == nil, "%s: %v", name, err)
	}
	var m shape.ValueMesh[[100]wide]
	err := m.UnmarshalText([]byte(fmt.Sprintf(`{"region":"x=%d/1","values":%s}`, n, list("[]"))))
	require.ErrorContains(t, err,
		`values of a mesh: values "100000 in 300001 bytes": want at most 14924336 bytes in memory`)
}
