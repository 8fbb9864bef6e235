package actor_test

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
)

// law is a built-in accumulator and a naive oracle of its value after updates. see normalizes a
// state: a nil map equals an empty one.
type law[S, U any] struct {
	acc        actor.Accumulator[S, U]
	update     *rapid.Generator[U]
	see        func(S) any
	oracle     func([]U) any
	idempotent bool
}

func (l law[S, U]) fold(t require.TestingT, updates []U) any {
	state := l.acc.Initial()
	for _, u := range updates {
		var err error
		state, err = l.acc.Fold(state, u)
		require.NoError(t, err)
	}
	return l.see(state)
}

// reduce folds neighbours in a random grouping, as relays would, into a drawn number of updates.
func (l law[S, U]) reduce(t *rapid.T, updates []U) []U {
	updates = slices.Clone(updates)
	for len(updates) > 1 && rapid.IntRange(0, 9).Draw(t, "go on") > 0 {
		i := rapid.IntRange(0, len(updates)-2).Draw(t, "pair")
		one, err := l.acc.Reducer().Fold(updates[i], updates[i+1])
		require.NoError(t, err)
		updates = slices.Replace(updates, i, i+2, one)
	}
	return updates
}

func (l law[S, U]) holds(t *testing.T) {
	t.Run(l.acc.Name(), func(t *testing.T) {
		require.NoError(t, l.acc.Err())
		rapid.Check(t, func(t *rapid.T) {
			updates := rapid.SliceOfN(l.update, 0, 12).Draw(t, "updates")
			want := l.oracle(updates)
			require.Equal(t, want, l.fold(t, updates), "the value of the oracle")
			mixed := rapid.Permutation(updates).Draw(t, "mixed")
			require.Equal(t, want, l.fold(t, mixed), "in any order")
			if l.acc.Reducer().Err() == nil {
				require.Equal(t, want, l.fold(t, l.reduce(t, updates)), "in any grouping")
				require.Equal(t, want, l.fold(t, l.reduce(t, mixed)), "in any order and grouping")
			}
			if len(updates) == 0 {
				return
			}
			again := slices.Concat(mixed, rapid.SliceOfN(rapid.SampledFrom(updates), 1, 5).Draw(t, "again"))
			if l.idempotent {
				require.Equal(t, want, l.fold(t, again), "duplicates change nothing")
				require.Equal(t, want, l.fold(t, l.reduce(t, again)), "nor when they are reduced")
			}
			require.Equal(t, l.oracle(again), l.fold(t, again))
		})
	})
}

func same[T any](v T) any { return v }

// sources draws per-source values of few sources, so they meet.
func sources[V any](v *rapid.Generator[V]) *rapid.Generator[map[string]V] {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), v, 0, 3)
}

func asCounts(m map[string]uint64) actor.Counts[string] { return m }

// farthest is the largest count of each source, from a look at all updates for every source.
func farthest(updates []actor.Counts[string]) map[string]uint64 {
	out := map[string]uint64{}
	for _, source := range []string{"a", "b", "c"} {
		for _, u := range updates {
			if n, ok := u[source]; ok {
				out[source] = max(out[source], n)
			}
		}
	}
	return out
}

func seen(c actor.Counts[string]) map[string]uint64 { return farthest([]actor.Counts[string]{c}) }

func TestAccumulators_obeyAlgebraicLaws(t *testing.T) {
	small := rapid.IntRange(-5, 5)
	counts := rapid.Map(sources(rapid.Uint64Range(0, 9)), asCounts)
	law[int, int]{acc: actor.Sum[int](), update: rapid.Int(), see: same[int], oracle: func(us []int) any {
		n := 0
		for _, u := range us {
			n += u
		}
		return n
	}}.holds(t)
	law[actor.Maybe[int], int]{acc: actor.Min[int](), update: small, see: same[actor.Maybe[int]],
		idempotent: true,
		oracle: func(us []int) any {
			if len(us) == 0 {
				return actor.Maybe[int]{}
			}
			return actor.Maybe[int]{Value: slices.Min(us), OK: true}
		}}.holds(t)
	law[actor.Maybe[string], string]{acc: actor.Max[string](), update: rapid.StringN(0, 3, 5),
		see:        same[actor.Maybe[string]],
		idempotent: true, oracle: func(us []string) any {
			if len(us) == 0 {
				return actor.Maybe[string]{}
			}
			return actor.Maybe[string]{Value: slices.Max(us), OK: true}
		}}.holds(t)
	none := rapid.Just(actor.None{})
	law[uint64, actor.None]{acc: actor.Count(), update: none, see: same[uint64],
		oracle: func(us []actor.None) any { return uint64(len(us)) }}.holds(t)
	law[actor.None, actor.None]{acc: actor.Barrier(), update: none, see: same[actor.None], idempotent: true,
		oracle: func([]actor.None) any { return actor.None{} }}.holds(t)
	law[actor.Counts[string], actor.Counts[string]]{acc: actor.GCounter[string](), update: counts,
		idempotent: true,
		see:        func(c actor.Counts[string]) any { return seen(c) },
		oracle:     func(us []actor.Counts[string]) any { return farthest(us) },
	}.holds(t)
	law[actor.PNCounts[string], actor.PNCounts[string]]{
		acc: actor.PNCounter[string](), idempotent: true,
		update: rapid.Custom(func(t *rapid.T) actor.PNCounts[string] {
			return actor.PNCounts[string]{Up: counts.Draw(t, "up"), Down: counts.Draw(t, "down")}
		}),
		see: func(c actor.PNCounts[string]) any { return [2]map[string]uint64{seen(c.Up), seen(c.Down)} },
		oracle: func(us []actor.PNCounts[string]) any {
			var up, down []actor.Counts[string]
			for _, u := range us {
				up, down = append(up, u.Up), append(down, u.Down)
			}
			return [2]map[string]uint64{farthest(up), farthest(down)}
		},
	}.holds(t)
	law[string, string]{acc: letters(), update: rapid.StringMatching(`[a-c]{0,2}`), see: same[string],
		idempotent: true,
		oracle: func(us []string) any {
			out := ""
			for _, l := range []string{"a", "b", "c"} {
				if slices.ContainsFunc(us, func(u string) bool { return slices.Contains([]byte(u), l[0]) }) {
					out += l
				}
			}
			return out
		}}.holds(t)
}

// letters joins texts to the set of their letters: a user's own lattice.
func letters() actor.Accumulator[string, string] {
	return actor.Join("letters", "", func(a, b string) (string, error) {
		all := []byte(a + b)
		slices.Sort(all)
		return string(slices.Compact(all)), nil
	})
}

// marks is a watermark's update and state in these tests.
type marks = actor.Marks[string, int]

func TestWatermark_obeysAlgebraicLaws(t *testing.T) {
	mark := rapid.Custom(func(t *rapid.T) actor.Mark[int] {
		return actor.Mark[int]{Value: rapid.IntRange(-5, 5).Draw(t, "value"),
			Time: rapid.Uint64Range(0, 3).Draw(t, "time")}
	})
	update := rapid.Map(sources(mark), func(m map[string]actor.Mark[int]) marks { return m })
	// last is each source's latest value, from a look at every time from the newest on.
	last := func(us []marks) map[string]int {
		out := map[string]int{}
		for _, source := range []string{"a", "b", "c"} {
			for at := 3; at >= 0; at-- {
				var said []int
				for _, u := range us {
					if m, ok := u[source]; ok && m.Time == uint64(at) {
						said = append(said, m.Value)
					}
				}
				if len(said) > 0 {
					out[source] = slices.Min(said)
					break
				}
			}
		}
		return out
	}
	for _, required := range [][]string{nil, {"b"}, {"a", "c"}, {"a", "b", "c"}} {
		low := func(values map[string]int) actor.Maybe[int] {
			var all []int
			for _, v := range values {
				all = append(all, v)
			}
			for _, source := range required {
				if _, ok := values[source]; !ok {
					return actor.Maybe[int]{}
				}
			}
			if len(all) == 0 {
				return actor.Maybe[int]{}
			}
			return actor.Maybe[int]{Value: slices.Min(all), OK: true}
		}
		type view struct {
			last map[string]int
			low  actor.Maybe[int]
		}
		law[actor.Progress[string, int], marks]{
			acc: actor.Watermark[string, int](required...), update: update, idempotent: true,
			see:    func(p actor.Progress[string, int]) any { return view{last([]marks{p.Marks}), p.Low} },
			oracle: func(us []marks) any { return view{last(us), low(last(us))} },
		}.holds(t)
	}
}

func TestWatermark_hasAValueOnceEnoughSourcesReported(t *testing.T) {
	acc := actor.WatermarkOf[string, int](2)
	var state actor.Progress[string, int]
	for _, step := range []struct {
		source string
		value  int
		time   uint64
		want   actor.Maybe[int]
	}{
		{"a", 10, 1, actor.Maybe[int]{}},
		{"a", 11, 2, actor.Maybe[int]{}},
		{"b", 20, 1, actor.Maybe[int]{Value: 11, OK: true}},
		{"a", 30, 3, actor.Maybe[int]{Value: 20, OK: true}},
		{"b", 5, 2, actor.Maybe[int]{Value: 5, OK: true}},  // values may go down
		{"b", 99, 1, actor.Maybe[int]{Value: 5, OK: true}}, // late, and not believed
		{"c", 7, 1, actor.Maybe[int]{Value: 5, OK: true}},
	} {
		var err error
		state, err = acc.Fold(state, marks{step.source: {Value: step.value, Time: step.time}})
		require.NoError(t, err)
		require.Equal(t, step.want, state.Low, "%s sends %d at %d", step.source, step.value, step.time)
	}
}

func TestWatermark_keepsReportedValues(t *testing.T) {
	required := []string{"a"}
	acc := actor.Watermark[string, int](required...)
	required[0] = "z"
	state, err := acc.Fold(acc.Initial(), marks{"a": {Value: 1, Time: 1}})
	require.NoError(t, err)
	require.True(t, state.Low.OK)
}

func TestAccumulators_doNotChangeReceivedStates(t *testing.T) {
	p := alone(t)
	port := accumulator(t, p, actor.GCounter[string]())
	require.NoError(t, port.Ref().Send(t.Context(), actor.Counts[string]{"a": 1}))
	before := port.Latest()
	require.NoError(t, port.Ref().Send(t.Context(), actor.Counts[string]{"a": 2, "b": 1}))
	require.Equal(t, actor.Counts[string]{"a": 1}, before)
	require.EqualValues(t, 3, port.Latest().Total())
	require.EqualValues(t, -3, actor.PNCounts[string]{Up: before, Down: actor.Counts[string]{"b": 4}}.Total())
}

func TestAccumulators_limitTheNumberOfSources(t *testing.T) {
	full := make(actor.Counts[int], 65_536)
	for n := range 65_536 {
		full[n] = 1
	}
	acc := actor.GCounter[int]()
	state, err := acc.Fold(acc.Initial(), full)
	require.NoError(t, err)
	_, err = acc.Fold(state, actor.Counts[int]{0: 2})
	require.NoError(t, err)
	_, err = acc.Fold(state, actor.Counts[int]{-1: 1})
	require.EqualError(t, err, "want at most 65536 sources, got 65537")
	pn := actor.PNCounter[int]()
	for _, u := range []actor.PNCounts[int]{{Up: actor.Counts[int]{-1: 1}}, {Down: actor.Counts[int]{-1: 1}}} {
		_, err = pn.Fold(actor.PNCounts[int]{Up: full, Down: full}, u)
		require.EqualError(t, err, "want at most 65536 sources, got 65537")
	}
}

func TestAccumulators_matchGoldenBytes_WIRE4(t *testing.T) {
	counts := actor.Counts[string]{"a": 1}
	for want, v := range map[string]any{
		"a16161" + "a2" + "0105" + "0207": actor.Marks[string, int]{"a": {Value: 5, Time: 7}},
		"a2" + "01a0" + "02" + "a2" + "0105" + "02f5": actor.Progress[string, int]{
			Marks: actor.Marks[string, int]{}, Low: actor.Maybe[int]{Value: 5, OK: true}},
		"a1616101":                         counts,
		"a2" + "01a1616101" + "02a1616101": actor.PNCounts[string]{Up: counts, Down: counts},
	} {
		b, err := wire.Marshal(v)
		require.NoError(t, err)
		require.Equal(t, want, hex.EncodeToString(b))
	}
}

func TestAccumulators_acceptUpdatesOverTheBus(t *testing.T) {
	a, b := two(t)
	low := accumulator(t, a, actor.Watermark[string, int]("x", "y"))
	counter := accumulator(t, a, actor.PNCounter[int]())
	for _, m := range []marks{{"x": {Value: 3, Time: 1}}, {"y": {Value: 2, Time: 1}}} {
		require.NoError(t, low.Ref().Via(b).Send(t.Context(), m))
	}
	testkit.Until(t, "both have spoken",
		func() bool { return low.Latest().Low == actor.Maybe[int]{Value: 2, OK: true} })
	for _, u := range []actor.PNCounts[int]{ // the first is sent again and does not count again
		{Up: actor.Counts[int]{1: 5}, Down: actor.Counts[int]{2: 7}},
		{Up: actor.Counts[int]{1: 5}, Down: actor.Counts[int]{2: 7}},
		{Up: actor.Counts[int]{3: 9}},
	} {
		require.NoError(t, counter.Ref().Via(b).Send(t.Context(), u))
	}
	testkit.Until(t, "all are counted", func() bool { return counter.Latest().Up[3] == 9 })
	require.EqualValues(t, 5+9-7, counter.Latest().Total())
}
