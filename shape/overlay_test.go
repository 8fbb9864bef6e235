package shape_test

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
)

type overlay = shape.ValueOverlay[string]
type overlayRun = shape.OverlayRun[string]

// told is the oracle of an overlay: what each rank was last believed to be.
type told map[uint64]overlayRun

func (o told) tell(rank, generation uint64, value string) {
	old, ok := o[rank]
	if !ok || generation > old.Generation || generation == old.Generation && value > old.Value {
		o[rank] = overlayRun{rank, rank + 1, generation, value}
	}
}

func (o told) add(other told) told {
	for rank, r := range other {
		o.tell(rank, r.Generation, r.Value)
	}
	return o
}

// genOverlay draws runs that may overlap, and what they say.
func genOverlay(t *rapid.T) (told, overlay) {
	want, runs := told{}, []overlayRun(nil)
	for range rapid.IntRange(0, 6).Draw(t, "runs") {
		begin := rapid.Uint64Range(0, 30).Draw(t, "begin")
		r := overlayRun{
			begin, begin + rapid.Uint64Range(1, 12).Draw(t, "ranks"),
			rapid.Uint64Range(0, 2).Draw(t, "generation"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "value"),
		}
		runs = append(runs, r)
		for rank := r.Begin; rank < r.End; rank++ {
			want.tell(rank, r.Generation, r.Value)
		}
	}
	kept := slices.Clone(runs)
	o := must(shape.OverlayOf(cmp.Compare[string], runs...))
	require.Equal(t, kept, runs, "the caller's runs are left alone")
	return want, o
}

// requireTold holds every reading of an overlay against the oracle.
func requireTold(t require.TestingT, want told, o overlay) {
	require.NoError(t, o.Check())
	require.EqualValues(t, len(want), o.Ranks())
	for rank := range uint64(60) {
		v, generation, ok := o.At(rank)
		w, in := want[rank]
		require.Equal(t, in, ok, "rank %d", rank)
		require.Equal(t, w.Value, v)
		require.Equal(t, w.Generation, generation)
	}
	for i := 1; i < len(o); i++ {
		a, b := o[i-1], o[i]
		require.False(t, a.End == b.Begin && a.Generation == b.Generation && a.Value == b.Value,
			"neighbours are one run")
	}
}

func TestValueOverlay_mergeKeepsTheHighestGeneration(t *testing.T) { // SHP-9
	rapid.Check(t, func(t *rapid.T) {
		inA, a := genOverlay(t)
		inB, b := genOverlay(t)
		inC, c := genOverlay(t)
		requireTold(t, inA, a)
		merge := func(a, b overlay) overlay { return must(a.Merge(b, cmp.Compare)) }
		ab := merge(a, b)
		require.Equal(t, ab, merge(b, a), "commutative")
		require.Equal(t, merge(ab, c), merge(a, merge(b, c)), "associative")
		require.Equal(t, a, merge(a, a), "idempotent")
		require.Equal(t, ab, merge(ab, a))
		require.Equal(t, a, merge(a, nil))
		requireTold(t, told{}.add(inA).add(inB).add(inC), merge(ab, c))
		requireTold(t, inA, a) // as it was
		var back overlay
		require.NoError(t, json.Unmarshal(must(json.Marshal(a)), &back))
		require.Equal(t, a, back)
	})
}

func TestValueOverlay_ignoresOlderGenerations(t *testing.T) { // SHP-9
	now := overlay{{0, 4, 7, "running"}}
	late := overlay{{2, 6, 6, "starting"}}
	require.Equal(t, overlay{{0, 4, 7, "running"}, {4, 6, 6, "starting"}}, must(now.Merge(late, cmp.Compare)))
}

func TestValueOverlay_applyAgreesWithTheOracle(t *testing.T) { // SHP-6
	rapid.Check(t, func(t *rapid.T) {
		r := shape.Of("x", rapid.IntRange(45, 300).Draw(t, "size")).Region()
		values := genRuns(t, r.NumRanks())
		want, o := genOverlay(t)
		m := must(shape.NewValueMesh(r, slices.Clone(values)))
		small := m.Compress()
		expect := slices.Clone(values)
		for rank, v := range want {
			expect[rank] = v.Value
		}
		requireBothForms(t, r, expect, must(o.Apply(m)))
		requireBothForms(t, r, expect, must(o.Apply(small)))
		requireValues(t, r, values, m) // as it was
		requireValues(t, r, values, small)
	})
}

func TestValueOverlay_badRunsAreRefusedEverywhere(t *testing.T) {
	fine := overlay{{0, 1, 0, "a"}}
	m := must(shape.UniformMesh(shape.Of("x", 9).Region(), "up"))
	for want, bad := range map[string]overlay{
		`run of an overlay "3:3": want an end after the begin`: {{3, 3, 0, "a"}},
		`run of an overlay "3:1": want an end after the begin`: {{3, 1, 0, "a"}},
		`run of an overlay "1:3": want a begin of at least 2, where the run before ends`: {{0, 2, 0, "a"},
			{1, 3, 0, "a"}},
		`run of an overlay "0:1": want a begin of at least 6, where the run before ends`: {{5, 6, 0, "a"},
			{0, 1, 0, "a"}},
	} {
		require.EqualError(t, bad.Check(), want)
		_, err := bad.Merge(fine, cmp.Compare)
		require.EqualError(t, err, want)
		_, err = fine.Merge(bad, cmp.Compare)
		require.EqualError(t, err, want)
		_, err = bad.Shift(1)
		require.EqualError(t, err, want)
		_, err = bad.Apply(m)
		require.EqualError(t, err, want)
	}
	_, err := shape.OverlayOf(cmp.Compare, overlayRun{0, 9, 0, "a"}, overlayRun{5, 5, 0, "a"})
	require.EqualError(t, err, `run of an overlay "5:5": want an end after the begin`)
	for _, end := range []uint64{10, math.MaxUint64} {
		_, err = overlay{{8, end, 0, "a"}}.Apply(m)
		require.ErrorContains(t, err, `want an end of at most 9, the ranks of the mesh`)
	}
	_, err = fine.Apply(shape.ValueMesh[string]{})
	require.ErrorContains(t, err, `want an end of at most 0`)
	require.Equal(t, m, must(overlay(nil).Apply(m)))
}

func TestValueOverlay_shiftMovesEveryRank(t *testing.T) {
	o := overlay{{0, 4, 7, "a"}, {6, 7, 1, "b"}}
	require.Equal(t, overlay{{5, 9, 7, "a"}, {11, 12, 1, "b"}}, must(o.Shift(5)))
	require.Equal(t, overlay{{0, 4, 7, "a"}, {6, 7, 1, "b"}}, o)
	_, err := o.Shift(math.MaxUint64 - 6)
	require.ErrorContains(t, err, "want ranks of 64 bits")
	require.Empty(t, must(overlay(nil).Shift(5)))
	all := overlay{{0, math.MaxUint64, 1, "a"}}
	require.Equal(t, overlay{{0, 9, 1, "a"}, {9, 10, 2, "b"}, {10, math.MaxUint64, 1, "a"}},
		must(all.Merge(overlay{{9, 10, 2, "b"}}, cmp.Compare)))
}

func FuzzValueOverlay(f *testing.F) {
	f.Add([]byte(`[{"begin":0,"end":4,"generation":7,"value":"a"}]`),
		[]byte(`[{"begin":2,"end":18446744073709551615,"value":"b"}]`))
	f.Add([]byte(`[{"begin":3,"end":3,"value":""}]`), []byte(`null`))
	f.Fuzz(func(t *testing.T, left, right []byte) {
		var a, b, back overlay
		if json.Unmarshal(left, &a) != nil || json.Unmarshal(right, &b) != nil {
			return
		}
		ab, err := a.Merge(b, cmp.Compare)
		ba, err2 := b.Merge(a, cmp.Compare)
		require.Equal(t, err == nil, err2 == nil)
		require.Equal(t, err == nil, a.Check() == nil && b.Check() == nil)
		if err != nil {
			return
		}
		require.NoError(t, ab.Check())
		require.Equal(t, ab, ba)
		require.Equal(t, ab, must(ab.Merge(a, cmp.Compare)))
		require.NoError(t, json.Unmarshal(must(json.Marshal(ab)), &back))
		require.Equal(t, len(ab), len(back))
	})
}
