package shape_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
)

func TestRegion_atDropsTheDimension(t *testing.T) { // SHP-1
	r := must(shape.Of("host", 2).With("gpu", 4).Region().At("host", 1))
	require.Equal(t, "4+gpu=4/1", r.String())
	require.Equal(t, []int{4, 5, 6, 7}, baseRanks(r))
	point := must(r.At("gpu", 3))
	require.Equal(t, "7+", point.String())
	require.Equal(t, 1, point.NumRanks())
	_, err := r.At("host", 0)
	require.EqualError(t, err, `dimension "host": want one of: gpu`)
	_, err = r.At("gpu", 4)
	require.EqualError(t, err, `index of gpu "4": want 0 to 3`)
}

func TestRegion_cutsInAnyOrderAgreeWithTheOracle(t *testing.T) { // SHP-1
	rapid.Check(t, func(t *rapid.T) {
		e := genAny.Draw(t, "extent")
		want, got := genCut(t, e)
		requireSame(t, want, got, e.NumRanks())
		require.True(t, got.Equal(must(shape.ParseRegion(got.String()))))
		for view, p := range want.ranks {
			point := must(got.PointOf(p.base))
			require.Equal(t, view, point.Rank())
			require.Equal(t, append([]int{}, p.coords...), point.Coords())
			require.Equal(t, p.base, must(got.BaseOf(point)))
			require.Equal(t, point, must(shape.ParsePoint(point.String()))) // SHP-4
		}
	})
}

func TestRegion_pointsOutsideAreRefused(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 4)
	r := must(e.Region().Slice("gpu", 0, 2))
	_, err := r.PointOf(2)
	require.EqualError(t, err, `base rank "2": want one of host=2/4,gpu=2/1`)
	_, err = r.BaseOf(must(e.Point(0)))
	require.EqualError(t, err, `point "host=0/2,gpu=0/4": want one of host=2,gpu=2`)
	broken := shape.Of("", 1).Region()
	_, err = broken.PointOf(0)
	require.ErrorAs(t, err, new(*shape.Error))
	_, err = broken.BaseOf(shape.Point{})
	require.ErrorAs(t, err, new(*shape.Error))
}

func TestRegion_subsetAndRemapAgreeWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genAny.Draw(t, "extent")
		_, a := genCut(t, e)
		want, b := genCut(t, e)
		if rapid.Bool().Draw(t, "of a") && len(a.Extent().Dims()) > 0 {
			a2 := must(a.Slice(a.Extent().Dims()[0].Label, 0, 1))
			require.NoError(t, a2.SubsetOf(a))
		}
		inside := slices.IndexFunc(baseRanks(a), func(r int) bool { return !slices.Contains(want.bases(), r) })
		others, err := a.Remap(b)
		if inside >= 0 {
			first := must(a.BaseRank(inside))
			require.EqualError(t, err, fmt.Sprintf(
				`base rank "%d": want one of %s, where %s is to be a part of it`, first, b, a))
			require.Equal(t, err, a.SubsetOf(b))
			return
		}
		require.NoError(t, err)
		require.NoError(t, a.SubsetOf(b))
		next := 0
		for view, other := range others {
			require.Equal(t, next, view)
			require.Equal(t, slices.Index(want.bases(), must(a.BaseRank(view))), other)
			next++
		}
		require.Equal(t, a.NumRanks(), next)
	})
}

// genText draws a region that no slice of an extent need be.
var genText = rapid.Custom(func(t *rapid.T) shape.Region {
	text, span := "", 0
	for i := range rapid.IntRange(0, 3).Draw(t, "dims") {
		size, gap := rapid.IntRange(1, 4).Draw(t, "size"), rapid.IntRange(1, 4).Draw(t, "gap")
		if i > 0 {
			text = "," + text
		}
		text = fmt.Sprintf("%s=%d/%d", labels[i], size, span+gap) + text
		span += (size - 1) * (span + gap)
	}
	if offset := rapid.IntRange(0, 4).Draw(t, "offset"); offset > 0 {
		text = fmt.Sprintf("%d+", offset) + text
	}
	return must(shape.ParseRegion(text))
})

// Regions from a text may run over the gaps of others. Slices of one extent never do.
func TestRegion_subsetsOfAnyTextAgreeWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genText.Draw(t, "a"), genText.Draw(t, "b")
		in := baseRanks(b)
		first := slices.IndexFunc(baseRanks(a), func(r int) bool { return !slices.Contains(in, r) })
		if err := a.SubsetOf(b); first < 0 {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, fmt.Sprintf(`base rank "%d"`, baseRanks(a)[first]))
		}
	})
}

func TestRegion_checksSubsetsOfTwoBillionRanksQuickly(t *testing.T) { // SHP-11
	all := shape.Of("host", 1<<27).With("gpu", 15).Region()
	require.NoError(t, all.SubsetOf(all))
	odd := must(all.SliceStep("host", 1, 1<<27, 2))
	require.NoError(t, odd.SubsetOf(all))
	short := must(all.Slice("host", 0, 1<<27-1))
	require.EqualError(t, all.SubsetOf(short),
		fmt.Sprintf(`base rank "%d": want one of %s, where %s is to be a part of it`, (1<<27-1)*15, short, all))
	narrow := must(all.Slice("gpu", 0, 14))
	require.ErrorContains(t, all.SubsetOf(narrow), `base rank "14"`)
	require.NoError(t, must(odd.Slice("gpu", 3, 9)).SubsetOf(narrow))
	// Steps of 3 through blocks of 4 with gaps of 2 leave the blocks and return.
	blocks := must(shape.ParseRegion("x=300000000/6,y=4/1"))
	steps := must(shape.ParseRegion("x=600000000/3"))
	require.ErrorContains(t, steps.SubsetOf(blocks), "that can be told without going through all ranks")
}

func TestRegion_subsetOfAnInvalidRegionIsAnError(t *testing.T) {
	broken, fine := shape.Of("", 1).Region(), shape.Unit().Region()
	require.Equal(t, broken.Err(), broken.SubsetOf(fine))
	require.Equal(t, broken.Err(), fine.SubsetOf(broken))
	_, err := broken.GroupBy("x")
	require.Equal(t, broken.Err(), err)
	_, err = broken.Select("*")
	require.Equal(t, broken.Err(), err)
}

func TestRegion_groupsAgreeWithTheOracle(t *testing.T) { // SHP-1
	rapid.Check(t, func(t *rapid.T) {
		e := genAny.Draw(t, "extent")
		want, r := genCut(t, e)
		if len(want.dims) == 0 {
			_, err := r.GroupBy("host")
			require.ErrorContains(t, err, `dimension "host"`)
			return
		}
		at := rapid.IntRange(0, len(want.dims)-1).Draw(t, "at")
		var groups []dumb
		for _, p := range want.ranks {
			if !slices.ContainsFunc(p.coords[at:], func(c int) bool { return c != 0 }) { // the first of its group
				groups = append(groups, dumb{dims: want.dims[at:]})
			}
			g := &groups[len(groups)-1]
			g.ranks = append(g.ranks, place{p.coords[at:], p.base})
		}
		next := 0
		for got := range must(r.GroupBy(want.dims[at].Label)) {
			requireSame(t, groups[next], got, e.NumRanks())
			next++
		}
		require.Len(t, groups, next)
	})
}

func TestRegion_groupsAndPointsNeedFewAllocations(t *testing.T) {
	r := shape.Of("host", 10_000).With("gpu", 8).Region()
	half := must(r.SliceStep("gpu", 0, 8, 2))
	require.LessOrEqual(t, testing.AllocsPerRun(3, func() {
		for g := range must(r.GroupBy("gpu")) {
			_ = g.NumRanks()
		}
		for _, other := range must(half.Remap(r)) {
			_ = other
		}
		for p := range r.Extent().Points() {
			_ = p.Rank()
		}
	}), 60.0)
}
