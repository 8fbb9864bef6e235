package shape_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
)

const fewRanks = 24

// anyRanks draws a set, and the same as a list.
func anyRanks(t *rapid.T) (shape.Ranks, []int) {
	in := rapid.SliceOfN(rapid.Bool(), fewRanks, fewRanks).Draw(t, "in")
	var list []int
	for rank, is := range in {
		if is {
			list = append(list, rank)
		}
	}
	return shape.RanksOf(slices.Values(list)), list
}

func TestRanks_behaveAsTheSetOfTheirRanks_SHP11(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, as := anyRanks(t)
		b, bs := anyRanks(t)
		require.Equal(t, as, slices.Collect(a.All()))
		require.Equal(t, len(as), a.Len())
		require.Equal(t, len(as) == 0, a.IsEmpty())
		if len(as) > 0 {
			require.Equal(t, []int{as[0], as[len(as)-1] + 1}, []int{a.First(), a.End()})
		}
		end := rapid.IntRange(0, fewRanks).Draw(t, "end")
		first := rapid.IntRange(0, fewRanks).Draw(t, "first")
		var both, without, within []int
		all := true
		for rank := range fewRanks {
			inA, inB := slices.Contains(as, rank), slices.Contains(bs, rank)
			require.Equal(t, inA, a.Contains(rank))
			all = all && (inA || !inB)
			if inA || inB {
				both = append(both, rank)
			}
			if !inA && rank < end {
				without = append(without, rank)
			}
			if inA && rank >= first && rank < end {
				within = append(within, rank)
			}
			after := rank
			for slices.Contains(as, after) {
				after++
			}
			require.Equal(t, after, a.FirstAbsent(rank))
		}
		require.Equal(t, all, a.ContainsAll(b))
		require.Equal(t, both, slices.Collect(shape.UnionOf(a, b).All()))
		require.Equal(t, without, slices.Collect(a.Complement(end).All()))
		var cut []int
		for r := range a.Within(first, end) {
			cut = slices.AppendSeq(cut, shape.Interval(r.First, r.Count).All())
		}
		require.Equal(t, within, cut)
		require.Equal(t, len(within) > 0, first < end && a.Intersects(first, end))
	})
}

func TestRanks_bytesRoundTrip_SHP11(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, as := anyRanks(t)
		data, err := a.MarshalBinary()
		require.NoError(t, err)
		var back shape.Ranks
		require.NoError(t, back.UnmarshalBinary(data))
		require.Equal(t, as, slices.Collect(back.All()))
		require.LessOrEqual(t, len(data), 2*len(a.Runs()))
	})
}

func FuzzRanks(f *testing.F) {
	f.Add([]byte{0, 1, 1, 2})
	f.Add([]byte{0, 1, 0, 2})
	f.Add([]byte{3})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var rs shape.Ranks
		if err := rs.UnmarshalBinary(data); err != nil {
			require.True(t, rs.IsEmpty())
			return
		}
		end := -1
		for _, r := range rs.Runs() {
			require.Greater(t, r.First, end)
			require.Positive(t, r.Count)
			end = r.End()
		}
		require.LessOrEqual(t, rs.End(), shape.MaxRanks)
		again, err := rs.MarshalBinary()
		require.NoError(t, err)
		var same shape.Ranks
		require.NoError(t, same.UnmarshalBinary(again))
		require.Equal(t, rs, same)
	})
}
