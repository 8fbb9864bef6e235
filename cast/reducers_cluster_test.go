package cast_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

func TestAggregate_foldsAtTheHosts_CAST5(t *testing.T) {
	c := newCluster(t, shape.Of("host", 3).With("gpu", 3), 3)
	for _, part := range []string{"*", "gpu=0:3:2", "host=1:3", "host=2,gpu=1"} {
		region := c.in(t, part)
		var ranks []int
		var names []string
		parity := map[bool]int{}
		for _, base := range region.region.Ranks() {
			ranks, names = append(ranks, base), append(names, "n"+strconv.Itoa(base))
			parity[base%2 == 1]++
		}
		n, err := cast.Aggregate(testkit.Soon(t), region, name, "n", cast.Count[string]())
		require.NoError(t, err)
		require.Equal(t, len(ranks), n, part)
		all, err := cast.Aggregate(testkit.Soon(t), region, name, "n", cast.Collect[string]())
		require.NoError(t, err)
		require.Equal(t, names, all, "in rank order: %s", part)
		best, err := cast.Aggregate(testkit.Soon(t), region, who, actor.None{}, cast.TopK[int](1))
		require.NoError(t, err)
		require.Equal(t, ranks[len(ranks)-1:], best, part)
		least, err := cast.Aggregate(testkit.Soon(t), region, name, "n", cast.BottomK[string](2))
		require.NoError(t, err)
		require.Equal(t, names[:min(2, len(names))], least, part)
		bins, err := cast.Aggregate(testkit.Soon(t), region, who, actor.None{}, cast.Histogram(1, 4))
		require.NoError(t, err)
		want := make([]int, 3)
		for _, rank := range ranks {
			switch {
			case rank < 1:
				want[0]++
			case rank < 4:
				want[1]++
			default:
				want[2]++
			}
		}
		require.Equal(t, want, bins, part)
		counts, err := cast.Aggregate(testkit.Soon(t), region, odd, actor.None{}, cast.CountBy[bool]())
		require.NoError(t, err)
		require.Equal(t, parity, counts, part)
	}
}

func TestReduce_concatAndMergeFoldAtTheHosts_CAST5(t *testing.T) {
	c := newCluster(t, shape.Of("host", 3).With("gpu", 2), 2)
	lists, err := cast.Reduce(testkit.Soon(t), c.members, list, actor.None{}, cast.Concat[[]int]())
	require.NoError(t, err)
	require.Equal(t, []int{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}, lists)
	merged, err := cast.Reduce(testkit.Soon(t), c.members, tags, actor.None{},
		cast.Merge[map[string]int](cast.Sum[int]()))
	require.NoError(t, err)
	require.Equal(t, map[string]int{"all": 6, "even": 3, "odd": 3}, merged)
	declared, err := cast.Reduce(testkit.Soon(t), c.members, tags, actor.None{},
		cast.Merge[map[string]int](last))
	require.NoError(t, err, "the endpoint declares it")
	require.Equal(t, map[string]int{"all": 1, "even": 1, "odd": 1}, declared)
}

func TestAggregate_namesAFailedRankAndKeepsTheOthers(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	best, err := cast.Aggregate(testkit.Soon(t), c.members, refuse, 7, cast.TopK[int](3))
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, "host=1,gpu=3", partial.Coverage.FailedRegion())
	require.Equal(t, []int{6, 5, 4}, best)
	bins, err := cast.Aggregate(testkit.Soon(t), c.in(t, "host=1,gpu=3"), refuse, 7, cast.Histogram(3))
	require.ErrorAs(t, err, &partial)
	require.Equal(t, []int{0, 0}, bins, "no rank answered")
}

func TestAggregate_invalidArgumentsFailBeforeSending(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 2), 2)
	toMany, alone := packets(t, c, 0)
	_, err := cast.Aggregate(testkit.Soon(t), c.members, who, actor.None{}, cast.TopK[int](0))
	require.ErrorIs(t, err, actor.ErrInvalid)
	require.ErrorContains(t, err, "who: reducer top(0): want how many to keep, 1 or more")
	_, err = cast.Aggregate(testkit.Soon(t), c.members, who, actor.None{}, cast.Histogram(2, 1))
	require.ErrorIs(t, err, actor.ErrInvalid)
	_, err = cast.Aggregate(testkit.Soon(t), c.members, who, actor.None{}, cast.Aggregator[int, int]{})
	require.ErrorIs(t, err, actor.ErrInvalid)
	for want, err := range map[string]error{
		"reducer sum folds numbers, got string": reduceErr(cast.Reduce(testkit.Soon(t), c.members, name, "",
			actor.NewReducer("sum", concat.Fold))),
		`does not declare the reducer "merge-unknown"`: reduceErr(cast.Reduce(testkit.Soon(t), c.members, tags,
			actor.None{}, cast.Merge[map[string]int](unknown))),
		`does not declare the reducer "top(3)"`: reduceErr(
			cast.Reduce(testkit.Soon(t), c.members, who, actor.None{}, actor.BuiltinReducer("top(3)", unknown.Fold))),
	} {
		require.ErrorIs(t, err, actor.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
	require.Zero(t, toMany()+alone())
}

func reduceErr[R any](_ R, err error) error { return err }

// A member's own process folds for it, and for code beside it.
func TestAggregate_worksFromAProcOfTheMesh(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	for rank := range 8 {
		local := c.members
		local.via = c.procs[rank]
		all, err := cast.Aggregate(testkit.Soon(t), local, name, "x", cast.Collect[string]())
		require.NoError(t, err)
		require.Equal(t, strings.Fields("x0 x1 x2 x3 x4 x5 x6 x7"), all, "from rank %d", rank)
		counts, err := cast.Aggregate(testkit.Soon(t), local, odd, actor.None{}, cast.CountBy[bool]())
		require.NoError(t, err)
		require.Equal(t, map[bool]int{false: 4, true: 4}, counts)
	}
}
