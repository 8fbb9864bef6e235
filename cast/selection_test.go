package cast_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

// some is the ranks of a mesh selected by a text.
func (c *cluster) some(t *testing.T, text string) cast.Mesh[*member] {
	t.Helper()
	s, err := shape.ParseSelection(c.region.Extent(), text)
	require.NoError(t, err)
	return cast.Select(c.members, s)
}

func TestSelect_everyVerbReachesAUnionOnce_CAST1(t *testing.T) {
	t.Parallel()
	for _, perProcess := range []int{1, 2, 4} {
		c := newCrowd(t, shape.Of("host", 3).With("gpu", 4), 4, perProcess)
		to := c.some(t, "host=0 | gpu=3")
		in := []int{0, 1, 2, 3, 7, 11}

		require.NoError(t, cast.Send(testkit.Soon(t), to, note, 1))
		var got []int
		for _, e := range c.Take(t, len(in)) {
			got = append(got, e.rank)
			require.Equal(t, e.rank, e.view, "it keeps its number in the mesh")
		}
		slices.Sort(got)
		require.Equal(t, in, got)

		text, err := cast.Reduce(testkit.Soon(t), to, name, "n", concat)
		require.NoError(t, err)
		require.Equal(t, "n0 n1 n2 n3 n7 n11", text, "in rank order")
		all, err := cast.Gather(testkit.Soon(t), to, name, "n")
		require.NoError(t, err)
		require.Equal(t, []string{"n0", "n1", "n2", "n3", "", "", "", "n7", "", "", "", "n11"}, all.Values())
		top, err := cast.Aggregate(testkit.Soon(t), to, who, actor.None{}, cast.TopK[int](3))
		require.NoError(t, err)
		require.Equal(t, []int{11, 7, 3}, top)
		var seen []int
		for pt, r := range cast.Stream(testkit.Soon(t), to, who, actor.None{}) {
			require.NoError(t, r.Err)
			require.Equal(t, pt.Rank(), r.Value)
			seen = append(seen, r.Value)
		}
		slices.Sort(seen)
		require.Equal(t, in, seen)
		for range 20 {
			rank, err := cast.Choose(testkit.Soon(t), to, who, actor.None{})
			require.NoError(t, err)
			require.Contains(t, in, rank)
		}
	}
}

func TestFirst_castsToTheLowestIndexOfEachPointBefore_CAST1(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, shape.Of("host", 3).With("gpu", 4), 4, 2)
	for text, want := range map[string][3]string{ // by gpu, by host, by both
		"*":                             {"n0 n4 n8", "n0 n1 n2 n3", "n0"},
		"host=1,gpu=2:4 | host=2,gpu=1": {"n6 n9", "n6 n7", "n6"},
		"gpu=3 | host=2":                {"n3 n7 n8", "n3", "n3"},
	} {
		some := c.some(t, text)
		for i, to := range []cast.Mesh[*member]{
			cast.First(some, "gpu"), cast.First(some, "host"), cast.First(cast.First(some, "gpu"), "host"),
		} {
			got, err := cast.Reduce(testkit.Soon(t), to, name, "n", concat)
			require.NoError(t, err)
			require.Equal(t, want[i], got, text)
		}
	}
	_, err := cast.Gather(testkit.Soon(t), cast.First(c.some(t, "*"), "rack"), name, "n")
	require.ErrorContains(t, err, `first of "rack": want a dimension of host=3,gpu=4`)
}

func TestSelect_coverageIsOfTheSelectedRanks_CAST4(t *testing.T) {
	t.Parallel()
	c := newCluster(t, twoByFour(), 4)
	sum, err := cast.Reduce(testkit.Soon(t), c.some(t, "host=0 | gpu=3"), refuse, 7, cast.Sum[int]())
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, 0+1+2+3, sum)
	require.Equal(t, "asked 5 · answered 4 · failed 1 [host=1,gpu=3] · missing 0", partial.Coverage.String())
}

func TestSelect_composesWithThrottleProgressAndSelection(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, shape.Of("host", 3).With("gpu", 4), 4, 2)
	settled := 0
	to := cast.WithProgress(c.some(t, "host=0 | gpu=3"), 0, func(n int) { settled = n })
	slow := cast.Throttled(to, cast.Throttle{BatchSize: 4, PerHost: 2})
	batches, err := slow.Batches()
	require.NoError(t, err)
	require.Equal(t, [][]int{{0, 1, 7, 11}, {2, 3}}, batches)
	text, err := cast.Reduce(testkit.Soon(t), slow, name, "n", concat)
	require.NoError(t, err)
	require.Equal(t, "n0 n1 n2 n3 n7 n11", text)
	require.Equal(t, 6, settled)
	text, err = cast.Reduce(testkit.Soon(t), cast.WithProgress(slow, 0, func(n int) { settled = -n }),
		name, "n", concat)
	require.NoError(t, err)
	require.Equal(t, "n0 n1 n2 n3 n7 n11", text)
	require.Equal(t, -6, settled, "whichever option comes first")

	last, err := shape.ParseSelection(c.region.Extent(), "gpu=2:4")
	require.NoError(t, err)
	text, err = cast.Reduce(testkit.Soon(t), cast.Select(c.some(t, "host=0 | gpu=3"), last), name, "n", concat)
	require.NoError(t, err)
	require.Equal(t, "n2 n3 n7 n11", text, "the ranks in both")
}

func TestSelect_refusesOtherMeshesAndNoRanks(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 2), 2)
	other, err := shape.ParseSelection(shape.Of("gpu", 3), "0")
	require.NoError(t, err)
	_, err = cast.Gather(testkit.Soon(t), cast.Select(c.members, other), who, actor.None{})
	require.ErrorIs(t, err, actor.ErrInvalid)
	require.ErrorContains(t, err, "a selection of gpu=3: want one of gpu=2")
	require.ErrorContains(t, cast.Send(testkit.Soon(t), c.some(t, "none"), note, 1),
		"the selection has no ranks")
}
