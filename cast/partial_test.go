package cast_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

func TestReduceStream_yieldsGrowingResultsEndingInTheTotal(t *testing.T) {
	c := newCluster(t, shape.Of("host", 3).With("gpu", 2), 2)
	var seen []cast.Partial[string]
	for p := range cast.ReduceStream(t.Context(), c.members, name, "r", concat, 0) {
		seen = append(seen, p)
	}
	last := seen[len(seen)-1]
	require.NoError(t, last.Err)
	require.Equal(t, "r0 r1 r2 r3 r4 r5", last.Value)
	require.True(t, last.Coverage.Complete())
	for i, p := range seen[:len(seen)-1] {
		require.NoError(t, p.Err)
		require.Less(t, p.Coverage.Answered, 6)
		require.True(t, i == 0 || p.Coverage.Answered > seen[i-1].Coverage.Answered)
	}
}

func TestReduceStream_doesNotAwaitSlowRanks(t *testing.T) {
	c := newCluster(t, shape.Of("host", 3).With("gpu", 2), 2)
	for p := range cast.ReduceStream(t.Context(), c.members, wait, 5, cast.Sum[int](), time.Millisecond) {
		require.NoError(t, p.Err)
		if p.Coverage.Answered == 5 {
			require.Equal(t, 0+1+2+3+4, p.Value)
			return // and lets go of the host that rank 5 holds up
		}
	}
	require.Fail(t, "no report of the other ranks")
}

// Rank 1 holds up its host and its process; yet the other ranks of these count.
func TestReduceStream_yieldsAHostsResultsDespiteASlowRank(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		for _, perProcess := range []int{1, 2, 4} {
			c := newCrowd(t, twoByFour(), 4, perProcess)
			heard := false
			for p := range cast.ReduceStream(testkit.Soon(t), c.members, wait, 1, cast.Sum[int](), 0) {
				require.NoError(t, p.Err)
				if heard = p.Coverage.Answered == 7; heard {
					require.Equal(t, 28-1, p.Value)
					require.Equal(t, "host=0,gpu=1", p.Coverage.MissingRegion())
					break
				}
			}
			require.True(t, heard, "%d in a process", perProcess)
		}
	})
}

// The progress report of a dead process does not count in the end.
func TestReduceStream_finalResultOmitsProgressReports(t *testing.T) {
	c := newCrowd(t, shape.Of("host", 2).With("gpu", 2), 2, 2)
	var last cast.Partial[int]
	died := false
	for last = range cast.ReduceStream(testkit.Soon(t), c.members, wait, 1, cast.Sum[int](), 0) {
		if last.Coverage.Answered == 3 && !died {
			died = true
			c.publishEnd(0)
		}
	}
	require.True(t, died)
	require.Equal(t, 2+3, last.Value)
	require.Equal(t, 2, last.Coverage.Answered)
	require.ErrorContains(t, last.Err, "failed 2 [host=0,gpu=*]")
}

func TestReduceStream_reportsProgress(t *testing.T) {
	c := newCrowd(t, twoByFour(), 4, 2)
	told := 0
	for p := range cast.ReduceStream(testkit.Soon(t),
		cast.WithProgress(c.members, time.Hour, func(n int) { told = n }), wait, 1, cast.Sum[int](), 0) {
		if p.Coverage.Answered == 7 {
			break
		}
	}
	require.Equal(t, 7, told)
}

func TestReduceStream_reportsInvalidArguments(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 2), 2)
	one := func(seq func(func(cast.Partial[int]) bool)) (got cast.Partial[int]) {
		n := 0
		for p := range seq {
			got, n = p, n+1
		}
		require.Equal(t, 1, n)
		return got
	}
	require.ErrorIs(t, one(cast.ReduceStream(t.Context(), c.members, who, actor.None{}, unknown, 0)).Err,
		actor.ErrInvalid)
	slow := cast.Throttled(c.members, cast.Throttle{BatchSize: 1})
	require.ErrorContains(t, one(cast.ReduceStream(t.Context(), slow, who, actor.None{}, cast.Sum[int](), 0)).
		Err, "use Stream")
	require.ErrorContains(t, one(cast.ReduceStream(t.Context(), c.members, refuse, 1, cast.Sum[int](), 0)).
		Err, "failed 1")
}
