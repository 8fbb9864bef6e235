package cast

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
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

// foldsTo is what a piece is folded to.
func foldsTo(t require.TestingT, p piece) map[int]int {
	v, err := inPlace.foldAll(func(yield func(actor.Answer, bool) bool) {
		for _, o := range p.values {
			if !yield(o.Answer, o.present) {
				return
			}
		}
	})
	require.NoError(t, err)
	return v.(map[int]int)
}

// once is each rank of a set, once.
func once(rs ranks) map[int]int {
	all := map[int]int{}
	for _, s := range rs {
		for rank := s.First; rank < s.end(); rank++ {
			all[rank]++
		}
	}
	return all
}

// What is folded so far has each answer once, nothing can come between the ranks of a piece, and in the end
// everything is folded as if nobody had looked.
func TestAggregation_partialPiecesLieBetweenAwaitedRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const lo, hi = 3, 20
		below := rapid.IntRange(lo, hi).Draw(t, "own")
		f := newAggregationState(lo, below, hi, ranks{{5, 1}})
		var todo []func()
		for rank := lo; rank < below; rank++ {
			todo = append(todo, func() {
				if rank%7 == 0 {
					f.addLocal(rank, actor.Answer{Err: &actor.Error{Code: actor.CodeInvalid}})
				} else {
					f.addLocal(rank, actor.Answer{Value: map[int]int{rank: 1}})
				}
			})
		}
		for first := max(below, 6); first < hi; { // what others fold: runs of two, or three of which one has failed
			c := contribution{}
			of := ranks{{first, min(2, hi-first)}}
			if first+2 < hi && rapid.Bool().Draw(t, "a gap") {
				of = ranks{{first, 1}, {first + 2, 1}}
				c.failed = []failure{{ranks{{first + 1, 1}}, noAnswer}}
			}
			raw, err := actor.Answer{Value: once(of)}.Raw()
			require.NoError(t, err)
			c.parts = []part{{of, actor.EncodedAnswer(raw)}}
			todo = append(todo, func() { f.addContribution(c) })
			first = of[len(of)-1].end()
		}
		for _, do := range rapid.Permutation(todo).Draw(t, "order") {
			do()
			seen, end := ranks(nil), lo
			for _, p := range f.pieces() {
				require.Equal(t, once(p.ranks), foldsTo(t, p))
				first := p.ranks[0].First
				require.True(t, first == lo || len(seen) == 0 || f.anyWaits(end, first), "two pieces that are one")
				end = p.ranks[len(p.ranks)-1].end()
				require.False(t, f.anyWaits(first, end), "something may come between")
				for _, s := range p.ranks {
					seen = seen.with(s)
				}
			}
			require.Equal(t, once(f.answeredRanks()), once(seen))
		}
		c := (&aggregation{state: f}).combine(inPlace, nil)
		if want := once(f.answeredRanks()); len(want) > 0 {
			require.Equal(t, want, c.parts[0].value.Value)
		}
	})
}

func (f *aggregationState) anyWaits(from, to int) bool {
	return slices.Contains(f.fates[from-f.lo:to-f.lo], waiting)
}

// Words of folders one above the other: each rank counts once, and what has come counts first.
func TestOperation_partialResultCountsEachRankOnce(t *testing.T) {
	said := func(spans ...span) part { return part{spans, actor.Answer{Value: once(spans)}} }
	proc := func(rank uint32) subjects.ProcID { return subjects.ProcID{Mesh: testMesh, Rank: rank} }
	a := &operation{collector: newCollector(eight())}
	a.addContribution(contribution{parts: []part{said(span{6, 2})}})
	a.recordProgress(proc(0), []part{said(span{0, 1}), said(span{2, 3})})
	a.recordProgress(proc(3), []part{said(span{3, 2})})             // which rank 0 has folded in since
	a.recordProgress(proc(4), []part{said(span{4, 2})})             // and this overlaps
	a.recordProgress(proc(6), []part{said(span{6, 1})})             // this has come
	a.recordProgress(proc(0), []part{said(span{0, 2}, span{3, 3})}) // a new word
	parts, c := a.partialResult()
	got := map[int]int{}
	for _, p := range parts {
		for rank, n := range p.value.Value.(map[int]int) {
			got[rank] += n
		}
	}
	require.Equal(t, map[int]int{0: 1, 1: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1}, got)
	require.Equal(t, 7, c.Answered)
	require.Equal(t, "host=0,gpu=2", c.MissingRegion())
	require.Equal(t, 6, a.pending, "these are words only")
	a.recordProgress(proc(0), []part{said(span{0, 2})}) // which was said before
	require.Len(t, a.progress[proc(0)][0].ranks, 2)
	for rank := range uint32(20) {
		a.recordProgress(proc(rank), []part{said(span{0, 1})})
	}
	require.Len(t, a.progress, 8)
}
