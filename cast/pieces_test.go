package cast

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// inPlace folds maps into the first one, as a reducer may.
var inPlace = untypedReducer{
	lift: func(a actor.Answer) (any, error) { return actor.DecodeAnswer[map[int]int](a) },
	open: func(a actor.Answer) (any, error) { return actor.DecodeAnswer[map[int]int](a) },
	fold: func(acc, next any) (any, error) {
		for k, n := range next.(map[int]int) {
			acc.(map[int]int)[k] += n
		}
		return acc, nil
	},
}

// foldsTo is the fold of a piece.
func foldsTo(t require.TestingT, p piece) map[int]int {
	v, err := inPlace.foldAll(func(yield func(actor.Answer, bool) bool) {
		for _, o := range p.values {
			if !yield(o.answer, o.own) {
				return
			}
		}
	})
	require.NoError(t, err)
	return v.(map[int]int)
}

// once is each rank of a set, once.
func once(rs shape.Ranks) map[int]int {
	all := map[int]int{}
	for rank := range rs.All() {
		all[rank]++
	}
	return all
}

// The present fold has each answer once, and nothing can come between the ranks of a piece. The
// final fold is the same with or without such looks.
func TestAggregation_partialPiecesLieBetweenAwaitedRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const lo, hi = 3, 20
		below := rapid.IntRange(lo, hi).Draw(t, "own")
		f := newFolder(lo, below, hi, shape.Interval(5, 1))
		var todo []func()
		for rank := lo; rank < below; rank++ {
			todo = append(todo, func() {
				if rank%7 == 0 {
					f.answer(rank, actor.Answer{Err: &actor.Error{Code: actor.CodeInvalid}})
				} else {
					f.answer(rank, actor.Answer{Value: map[int]int{rank: 1}})
				}
			})
		}
		for first := max(below, 6); first < hi; { // what others fold: runs of two, or three of which one has failed
			c := contribution{}
			of := shape.Interval(first, min(2, hi-first))
			if first+2 < hi && rapid.Bool().Draw(t, "a gap") {
				of = shape.UnionOf(shape.Interval(first, 1), shape.Interval(first+2, 1))
				c.failed = []failure{{shape.Interval(first+1, 1), actor.EncodeError(noAnswer)}}
			}
			raw, err := actor.Answer{Value: once(of)}.Raw()
			require.NoError(t, err)
			c.parts = []part{{of, actor.EncodedAnswer(raw)}}
			todo = append(todo, func() { f.contribute(c) })
			first = of.End()
		}
		for _, do := range rapid.Permutation(todo).Draw(t, "order") {
			do()
			seen, end := shape.Ranks{}, lo
			for _, p := range f.pieces() {
				require.Equal(t, once(p.ranks), foldsTo(t, p))
				first := p.ranks.First()
				require.True(t, first == lo || seen.IsEmpty() || f.anyWaits(end, first),
					"two adjacent pieces without a gap")
				end = p.ranks.End()
				require.False(t, f.anyWaits(first, end), "something may come between")
				seen = shape.UnionOf(seen, p.ranks)
			}
			require.Equal(t, once(f.ranksWith(answered)), once(seen))
		}
		c := (&aggregation{state: f}).combine(inPlace, nil)
		if want := once(f.ranksWith(answered)); len(want) > 0 {
			require.Equal(t, want, c.parts[0].value.Value)
		}
	})
}

func (f *collector) anyWaits(from, to int) bool {
	return slices.Contains(f.fates[from-f.lo:to-f.lo], waiting)
}

// Reports come from folders above each other. Each rank counts once, and earlier reports count
// first.
func TestOperation_partialResultCountsEachRankOnce(t *testing.T) {
	said := func(sets ...shape.Ranks) part {
		rs := shape.UnionOf(sets...)
		return part{rs, actor.Answer{Value: once(rs)}}
	}
	proc := func(rank uint32) subjects.ProcID { return subjects.ProcID{Mesh: testMesh, Rank: rank} }
	a := &operation{rollout: newHome(eight(), modeFold)}
	a.contribute(contribution{parts: []part{said(shape.Interval(6, 2))}})
	a.recordProgress(proc(0), []part{said(shape.Interval(0, 1)), said(shape.Interval(2, 3))})
	// rank 0 has included it since
	a.recordProgress(proc(3), []part{said(shape.Interval(3, 2))})
	a.recordProgress(proc(4), []part{said(shape.Interval(4, 2))})                       // and this overlaps
	a.recordProgress(proc(6), []part{said(shape.Interval(6, 1))})                       // this has come
	a.recordProgress(proc(0), []part{said(shape.Interval(0, 2), shape.Interval(3, 3))}) // a new word
	known := a.partialResult()
	c := known.coverage()
	got := map[int]int{}
	for _, p := range known.parts {
		for rank, n := range p.value.Value.(map[int]int) {
			got[rank] += n
		}
	}
	require.Equal(t, map[int]int{0: 1, 1: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1}, got)
	require.Equal(t, 7, c.Answered)
	require.Equal(t, "host=0,gpu=2", c.MissingRegion())
	require.Equal(t, 6, a.pending, "these are words only")
	a.recordProgress(proc(0), []part{said(shape.Interval(0, 2))}) // which was said before
	require.Len(t, a.progress[proc(0)][0].ranks.Runs(), 2)
	for rank := range uint32(20) {
		a.recordProgress(proc(rank), []part{said(shape.Interval(0, 1))})
	}
	require.Len(t, a.progress, 8)
}
