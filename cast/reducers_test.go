package cast

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/wire"
)

// bracket folds answers in any bracketing, and encodes any value on the way.
func bracket[R any](t *rapid.T, by untypedReducer, answers []R) any {
	var acc any
	var err error
	if len(answers) == 1 {
		answer := actor.Answer{Value: answers[0]}
		if rapid.Bool().Draw(t, "came over the bus") {
			answer = actor.EncodedAnswer(bytesOf(t, answers[0]))
		}
		acc, err = by.lift(answer)
	} else {
		at := rapid.IntRange(1, len(answers)-1).Draw(t, "split")
		a, b := bracket(t, by, answers[:at]), bracket(t, by, answers[at:])
		before := slices.Concat(bytesOf(t, a), bytesOf(t, b))
		acc, err = by.fold(a, b)
		require.Equal(t, before, slices.Concat(bytesOf(t, a), bytesOf(t, b)), "arguments are left as they are")
	}
	require.NoError(t, err)
	if rapid.Bool().Draw(t, "travels") {
		acc, err = by.open(actor.EncodedAnswer(bytesOf(t, acc)))
		require.NoError(t, err)
	}
	return acc
}

// anyAnswers draws the answers of ranks.
func anyAnswers[R any](t *rapid.T, of *rapid.Generator[R]) []R {
	return rapid.SliceOfN(of, 1, 20).Draw(t, "answers")
}

// requireAggregate compares an aggregator's result with the wanted one.
func requireAggregate[R, Acc any](t *rapid.T, by Aggregator[R, Acc], answers []R, want Acc) {
	require.NoError(t, by.Err())
	b, err := by.builtin()
	require.NoError(t, err)
	got, err := by.result(bracket(t, b.untypedReducer, answers))
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = by.foldAll(func(yield func(actor.Answer, bool) bool) {
		for _, answer := range answers {
			if !yield(actor.Answer{Value: answer}, true) {
				return
			}
		}
	})
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// requireReducer compares a reducer, as callers and as procs fold with it, with a fold from the
// left.
func requireReducer[R any](t *rapid.T, by actor.Reducer[R], answers []R) {
	require.NoError(t, by.Err())
	want := answers[0]
	for _, next := range answers[1:] {
		var err error
		want, err = by.Fold(want, next)
		require.NoError(t, err)
	}
	procs, err := parseBuiltin(by.Name(), openAs[R])
	require.NoError(t, err)
	require.NoError(t, procs.accepts(reflect.TypeFor[R]()))
	callers := untypedReducer{lift: openAs[R], open: openAs[R],
		fold: func(a, b any) (any, error) { return by.Fold(a.(R), b.(R)) }}
	for _, reducer := range []untypedReducer{procs.untypedReducer, callers} {
		require.Equal(t, bytesOf(t, want), bytesOf(t, bracket(t, reducer, answers)))
		all, err := reducer.foldAll(func(yield func(actor.Answer, bool) bool) {
			for i, answer := range answers {
				if !yield(actor.Answer{Value: answer}, i%2 == 0) {
					return
				}
			}
		})
		require.NoError(t, err)
		require.IsType(t, want, all)
		require.Equal(t, bytesOf(t, want), bytesOf(t, all))
	}
}

// bytesOf makes NaN equal to NaN, and no elements to none.
func bytesOf(t *rapid.T, v any) []byte {
	b, err := wire.Marshal(v)
	require.NoError(t, err)
	return b
}

var (
	anyFloat = rapid.OneOf(rapid.Float64(),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1)}))
	anyTags = rapid.MapOfN(rapid.StringMatching("[a-c]"), rapid.Int64Range(-9, 9), 1, 3)
	anyList = rapid.SliceOfN(rapid.IntRange(0, 9), 1, 3)
)

type level int16

func TestReducers_areAssociative_CAST5(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ints, floats := anyAnswers(t, rapid.Int64()), anyAnswers(t, anyFloat)
		requireReducer(t, Sum[int64](), ints)
		requireReducer(t, Max[int](), anyAnswers(t, rapid.Int()))
		requireReducer(t, Min[int64](), ints)
		requireReducer(t, Max[int64](), ints)
		requireReducer(t, Min[float64](), floats)
		requireReducer(t, Max[float64](), floats)
		requireReducer(t, Sum[level](),
			anyAnswers(t, rapid.Custom(func(t *rapid.T) level { return level(rapid.Int16().Draw(t, "level")) })))
		requireReducer(t, Sum[uint8](), anyAnswers(t, rapid.Uint8()))
		requireReducer(t, Max[uint64](), anyAnswers(t, rapid.Uint64()))
		requireReducer(t, Min[uint64](), anyAnswers(t, rapid.Uint64()))
		requireReducer(t, All[bool](), anyAnswers(t, rapid.Bool()))
		requireReducer(t, Any[bool](), anyAnswers(t, rapid.Bool()))
		requireReducer(t, Concat[[]int](), anyAnswers(t, anyList))
		requireReducer(t, Merge[map[string]int64](Sum[int64]()), anyAnswers(t, anyTags))
		requireReducer(t, Merge[map[string][]int](Concat[[]int]()),
			anyAnswers(t, rapid.MapOfN(rapid.StringMatching("[a-c]"), anyList, 1, 3)))
		requireReducer(t, Merge[map[int]map[string]int64](Merge[map[string]int64](Max[int64]())),
			anyAnswers(t, rapid.MapOfN(rapid.IntRange(0, 2), anyTags, 1, 3)))
	})
}

func TestConcat_keepsRankOrder_CAST5(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists := anyAnswers(t, anyList)
		b, err := parseBuiltin(nameConcat, openAs[[]int])
		require.NoError(t, err)
		require.Equal(t, slices.Concat(lists...), bracket(t, b.untypedReducer, lists))
	})
}

func TestAggregators_areAssociativeAndMatchTheirDefinitions_CAST5(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := anyAnswers(t, rapid.StringMatching("[a-c]{0,2}"))
		requireAggregate(t, Count[string](), texts, len(texts))
		requireAggregate(t, Collect[string](), texts, texts)
		counts := map[string]int{}
		for _, s := range texts {
			counts[s]++
		}
		requireAggregate(t, CountBy[string](), texts, counts)

		k := rapid.IntRange(1, 8).Draw(t, "k")
		up := slices.Sorted(slices.Values(texts))
		down := slices.Clone(texts)
		slices.SortStableFunc(down, func(a, b string) int { return cmp.Compare(b, a) })
		requireAggregate(t, BottomK[string](k), texts, up[:min(k, len(up))])
		requireAggregate(t, TopK[string](k), texts, down[:min(k, len(down))])
		levels := []level{3, -4, 9, 9}
		requireAggregate(t, TopK[level](3), levels, []level{9, 9, 3})
		requireAggregate(t, BottomK[uint64](2), []uint64{math.MaxUint64, 7, 8}, []uint64{7, 8})
		requireAggregate(t, TopK[float64](1), []float64{math.NaN(), 1, -1}, []float64{1})
	})
}

// dumbHistogram counts by looking at each bound.
func dumbHistogram[R actor.Number](bounds, answers []R) []int {
	out := make([]int, len(bounds)+1)
	for _, a := range answers {
		bin := 0
		for _, b := range bounds {
			if a >= b {
				bin++
			}
		}
		out[bin]++
	}
	return out
}

func requireHistogram[R actor.Number](t *rapid.T, of *rapid.Generator[R]) {
	ok := of.Filter(func(r R) bool { return r == r })
	bounds := slices.Sorted(slices.Values(rapid.SliceOfNDistinct(ok, 1, 5, func(r R) R { return r }).
		Draw(t, "bounds")))
	answers := append(anyAnswers(t, of), bounds...)
	requireAggregate(t, Histogram(bounds...), answers, dumbHistogram(bounds, answers))
}

func TestHistogram_countsBetweenBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requireHistogram(t, rapid.Int64()) // beyond what a float64 holds
		requireHistogram(t, rapid.Uint64())
		requireHistogram(t, rapid.Uint8())
		requireHistogram(t, anyFloat)
		requireHistogram(t, rapid.Float32())
	})
}

func TestAggregators_haveAValueWithoutReplies(t *testing.T) {
	n, err := Count[string]().result(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	bins, err := Histogram(1, 2).result(nil)
	require.NoError(t, err)
	require.Equal(t, []int{0, 0, 0}, bins)
	items, err := TopK[int](2).result(nil)
	require.NoError(t, err)
	require.Empty(t, items)
	counts, err := CountBy[int]().result(nil)
	require.NoError(t, err)
	require.Empty(t, counts)
}

func TestReducers_refuseInvalidArguments(t *testing.T) {
	latest := actor.NewReducer("latest", func(_, b int) (int, error) { return b, nil })
	many := make([]int, maxBounds+1)
	for i := range many {
		many[i] = i
	}
	for want, err := range map[string]error{
		"reducer top(0): want how many to keep":                       TopK[int](0).Err(),
		"reducer bottom(-1): want how many to keep":                   BottomK[int](-1).Err(),
		"reducer histogram(): want one bound or more":                 Histogram[int]().Err(),
		"reducer histogram(2,1): want one bound or more, each larger": Histogram(2, 1).Err(),
		"reducer histogram(1,1)":                                      Histogram(1.0, 1).Err(),
		"reducer histogram(NaN)":                                      Histogram(math.NaN()).Err(),
		"1025 bounds, want 1024 at most":                              Histogram(many...).Err(),
		"want an aggregator made by this package, got the zero":       Aggregator[int, int]{}.Err(),
		"want a function": Merge[map[string]int](
			actor.NewReducer[int]("x", nil)).Err(),
		`"merge-two words"`: Merge[map[string]int](
			actor.NewReducer("two words", latest.Fold)).Err(),
		"reducer merge-: want a function": Merge[map[string]int](
			actor.Reducer[int]{}).Err(),
		`reducer "median()": no such built-in reducer`:      second(parseBuiltin("median()", nil)),
		`reducer "top(3": no such built-in reducer`:         second(parseBuiltin("top(3", nil)),
		`reducer top: want how many`:                        second(parseBuiltin("top", nil)),
		`reducer "merge(top(3))": no such built-in reducer`: second(parseBuiltin("merge(top(3))", nil)),
		"reducer count(3): it takes nothing in parentheses": second(parseBuiltin("count(3)", nil)),
		"reducer top(03): want how many":                    second(parseBuiltin("top(03)", nil)),
		"reducer top(99999999999999999999): want how many": second(
			parseBuiltin("top(99999999999999999999)", nil)),
		"reducer histogram(1,x): want one bound or more": second(parseBuiltin("histogram(1,x)", nil)),
		"no such built-in reducer": second(
			parseBuiltin(strings.Repeat("merge(", 99)+"sum"+strings.Repeat(")", 99), nil)),
		"want at most 65536 bytes": second(
			parseBuiltin(strings.Repeat("x", maxSpec+1), nil)),
	} {
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 1000)
	}
	require.NoError(t, Merge[map[string]int](latest).Err())
	require.Equal(t, "merge-latest", Merge[map[string]int](latest).Name())
	require.False(t, Merge[map[string]int](latest).Builtin(), "an endpoint declares it")
	require.Equal(t, "merge(merge(sum))",
		Merge[map[int]map[string]int](Merge[map[string]int](Sum[int]())).Name())
}

func second[T any](_ T, err error) error { return err }

type pair struct{ A, B int }

func TestReducers_refuseUnsupportedValues(t *testing.T) {
	for text, c := range map[string]struct {
		answer any
		want   string
	}{
		"sum":                {"a", "reducer sum folds numbers, got string"},
		"all":                {1, "reducer all folds booleans, got int"},
		"concat()":           {"a", "reducer concat() folds slices, got string"},
		"merge(sum)":         {[]int{1}, "reducer merge(sum) folds maps, got []int"},
		"merge(merge(sum))":  {map[string]int{"k": 1}, "reducer merge(sum) folds maps, got int"},
		"top(1)":             {pair{}, "reducer top(1) folds numbers and text, got cast.pair"},
		"bottom(1)":          {true, "reducer bottom(1) folds numbers and text, got bool"},
		"histogram(0.5,1.5)": {1, "reducer histogram(0.5,1.5) folds numbers of the bounds' kind, got int"},
		"histogram(-1,1)":    {uint(1), "reducer histogram(-1,1) folds numbers of the bounds' kind, got uint"},
	} {
		b, err := parseBuiltin(text, openAs[any])
		require.NoError(t, err)
		require.ErrorContains(t, b.accepts(reflect.TypeOf(c.answer)), c.want)
		require.NoError(t, b.accepts(reflect.TypeFor[any]()), "any type passes before the first answer")
		require.ErrorContains(t, foldTwice(b, c.answer), c.want)
	}
	for _, text := range []string{"top(1)", "histogram(1)", "sum", "concat()"} {
		b, err := parseBuiltin(text, openAs[any])
		require.NoError(t, err)
		require.ErrorContains(t, foldTwice(b, nil), "nil")
	}
}

// foldTwice folds two equal answers.
func foldTwice(b builtin, answer any) error {
	acc, err := b.lift(actor.Answer{Value: answer})
	if err == nil {
		_, err = b.fold(acc, acc)
	}
	return err
}

func TestReducers_refuseMixedTypes(t *testing.T) {
	for text, c := range map[string][2]any{
		"sum": {1, "b"}, "max": {1, int8(1)}, "concat()": {[]int{1}, []string{"b"}}, "top(2)": {1, "b"},
		"merge(sum)": {map[string]any{"k": 1}, map[string]any{"k": "b"}},
	} {
		by, err := parseBuiltin(text, openAs[any])
		require.NoError(t, err)
		a, err := by.lift(actor.Answer{Value: c[0]})
		require.NoError(t, err)
		b, err := by.lift(actor.Answer{Value: c[1]})
		require.NoError(t, err)
		_, err = by.fold(a, b)
		require.ErrorContains(t, err, "answers of different types")
		require.ErrorContains(t, err, "reducer "+text)
	}
}

func TestReducers_mixIntegersAndFloatsWithoutAType(t *testing.T) {
	for text, want := range map[string]float64{"sum": 4.5, "min": 1.5, "max": 3} {
		by, err := parseBuiltin(text, openAs[any])
		require.NoError(t, err)
		for _, pair := range [][2]any{{int64(3), 1.5}, {1.5, int64(3)}} {
			got, err := by.fold(pair[0], pair[1])
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

func TestMerge_returnsTheErrorOfItsValueReducer(t *testing.T) {
	picky := actor.NewReducer("picky", func(a, b int) (int, error) {
		if a == b {
			return 0, errors.New("twice the same")
		}
		panic("differ")
	})
	merge := Merge[map[string]int](picky)
	_, err := merge.Fold(map[string]int{"a": 1}, map[string]int{"a": 1})
	require.ErrorContains(t, err, "twice the same")
	_, err = merge.Fold(map[string]int{"a": 1}, map[string]int{"a": 2})
	require.ErrorContains(t, err, "reducer picky panicked: differ")
	got, err := merge.Fold(map[string]int{"a": 1}, map[string]int{"b": 2})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 1, "b": 2}, got)
}

// Any packed value of a peer decodes to an error, or to a foldable value.
func FuzzBuiltinOpen(f *testing.F) {
	for _, text := range []string{"count()", "collect()", "count-by()", "top(2)", "bottom(1)", "histogram(0,10)",
		"sum", "concat()", "merge(max)"} {
		for _, packed := range []any{1, -1, []int64{2, 1}, []valueCount{{[]byte{1}, 2}}, []valueCount{{nil, 0}},
			[]int{1, 2, 3}, []int{-1, 2, 3}, nil, map[string]int64{"a": 1}} {
			b, err := wire.Marshal(packed)
			require.NoError(f, err)
			f.Add(text, b)
		}
	}
	// lists of little
	for _, text := range []string{"collect()", "count-by()", "top(2)", "bottom(200000)",
		"histogram(0,10)", "concat()"} {
		for _, element := range []string{"\x00", "\x40", "\x60", "\x80", "\xa0", "\xf6", "\x18\x20",
			"\x19\x01\x02"} {
			f.Add(text, append([]byte{0x9a, 0, 1, 0, 0}, bytes.Repeat([]byte(element), 1<<16)...))
		}
	}
	f.Fuzz(func(t *testing.T, text string, data []byte) {
		b, err := parseBuiltin(text, openAs[int64])
		if err != nil || b.accepts(reflect.TypeFor[int64]()) != nil {
			return
		}
		bustest.CheckAllocBound(t, data, func() { _, _ = b.open(actor.EncodedAnswer(data)) })
		acc, err := b.open(actor.EncodedAnswer(data))
		if err != nil {
			return
		}
		acc, err = b.fold(acc, acc)
		require.NoError(t, err)
		_, err = wire.Marshal(acc)
		require.NoError(t, err)
	})
}
