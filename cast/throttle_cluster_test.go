package cast_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

func TestThrottled_everyVerbAsksInBatches(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	slow := cast.Throttled(c.members, cast.Throttle{BatchSize: 3, PerHost: 2, Canary: true})
	batches, err := slow.Batches()
	require.NoError(t, err)
	require.Equal(t, [][]int{{0}, {1, 2, 4}, {3, 5, 6}, {7}}, batches)

	all, err := cast.Gather(testkit.Soon(t), slow, name, "n")
	require.NoError(t, err)
	require.Equal(t, strings.Fields("n0 n1 n2 n3 n4 n5 n6 n7"), all.Values())
	text, err := cast.Reduce(testkit.Soon(t), slow, name, "n", concat)
	require.NoError(t, err)
	require.Equal(t, "n0 n1 n2 n3 n4 n5 n6 n7", text, "in rank order, whichever batch a rank was in")
	top, err := cast.Aggregate(testkit.Soon(t), slow, who, actor.None{}, cast.TopK[int](2))
	require.NoError(t, err)
	require.Equal(t, []int{7, 6}, top)
	var seen []int
	for pt, r := range cast.Stream(testkit.Soon(t), slow, who, actor.None{}) {
		require.NoError(t, r.Err)
		require.Equal(t, pt.Rank(), r.Value)
		seen = append(seen, pt.Rank())
	}
	require.Equal(t, 0, seen[0])
	for i, batch := range batches {
		got := seen[:len(batch)]
		slices.Sort(got)
		require.Equal(t, batch, got, "batch %d", i)
		seen = seen[len(batch):]
	}
	require.ErrorIs(t, cast.Send(t.Context(), slow, note, 1), actor.ErrInvalid)
}

func TestThrottled_regionWithStepsKeepsItsRanks(t *testing.T) {
	c := newCluster(t, shape.Of("host", 2).With("gpu", 6), 6)
	part := c.in(t, "gpu=1:6:2") // 1 3 5 7 9 11
	for _, th := range []cast.Throttle{{}, {BatchSize: 4}, {BatchSize: 1}, {PerHost: 1}} {
		all, err := cast.Gather(testkit.Soon(t), cast.Throttled(part, th), who, actor.None{})
		require.NoError(t, err)
		require.Equal(t, []int{1, 3, 5, 7, 9, 11}, all.Values())
	}
}

func TestThrottled_batchesAreSequential(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	var most, n atomic.Int32
	slow := cast.Throttled(c.members, cast.Throttle{BatchSize: 2})
	for _, r := range cast.Stream(testkit.Soon(t), slow, note, 1) {
		require.NoError(t, r.Err)
		most.Store(max(most.Load(), int32(len(c.All(nil)))-n.Add(1)))
	}
	require.LessOrEqual(t, most.Load(), int32(1), "at most the other rank of its batch had it")
	require.Len(t, c.Take(t, 8), 8)
}

func TestThrottled_stoppedCastNamesRanksNotAsked(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	slow := cast.Throttled(c.members, cast.Throttle{BatchSize: 2, MaxFailures: 1})
	all, err := cast.Gather(testkit.Soon(t), slow, refuse, 2)
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, "asked 4 · answered 3 · failed 1 [host=0,gpu=2] · missing 0 · not asked 4 [host=1,gpu=*]",
		partial.Coverage.String())
	require.Equal(t, []int{0, 1, 0, 3, 0, 0, 0, 0}, all.Values())
	sum, err := cast.Reduce(testkit.Soon(t), slow, refuse, 2, cast.Sum[int]())
	require.ErrorAs(t, err, &partial)
	require.Equal(t, 0+1+3, sum)
	n, err := cast.Aggregate(testkit.Soon(t), slow, refuse, 2, cast.Count[int]())
	require.ErrorAs(t, err, &partial)
	require.Equal(t, 3, n)
	var without []int
	for pt, r := range cast.Stream(testkit.Soon(t), slow, refuse, 2) {
		if r.Err != nil {
			without = append(without, pt.Rank())
		}
	}
	require.Equal(t, []int{2, 4, 5, 6, 7}, without)

	only := cast.Throttled(c.members, cast.Throttle{Canary: true})
	sum, err = cast.Reduce(testkit.Soon(t), only, refuse, 0, cast.Sum[int]())
	require.ErrorContains(t, err, "not asked 7")
	require.Zero(t, sum)
	bins, err := cast.Aggregate(testkit.Soon(t), only, refuse, 0, cast.Histogram(1))
	require.ErrorContains(t, err, "the canary failed: ")
	require.Equal(t, []int{0, 0}, bins)
}

func TestThrottled_percentAsksASubset(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	some := cast.Throttled(c.members, cast.Throttle{SamplePercent: 25, Seed: 7})
	batches, err := some.Batches()
	require.NoError(t, err)
	require.Len(t, batches[0], 2)
	got, err := cast.Aggregate(testkit.Soon(t), some, who, actor.None{}, cast.Collect[int]())
	require.NoError(t, err, "ranks outside the sample are not missing")
	require.Equal(t, batches[0], got)
	for range 20 {
		rank, err := cast.Choose(testkit.Soon(t), some, who, actor.None{})
		require.NoError(t, err)
		require.Contains(t, batches[0], rank)
	}
}

func TestThrottled_deadRankCountsAsFailure(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	waiting := make(chan error, 1)
	go func() {
		_, err := cast.Gather(testkit.Soon(t), c.members, wait, 2)
		waiting <- err
	}()
	c.Take(t, 1) // rank 2 has it and says nothing
	c.publishEnd(2)
	require.ErrorIs(t, <-waiting, actor.ErrProcDead)
	_, err := cast.Gather(testkit.Soon(t), cast.Throttled(c.members, cast.Throttle{BatchSize: 1, MaxFailures: 1}),
		who, actor.None{})
	require.ErrorIs(t, err, actor.ErrProcDead)
	require.ErrorContains(t, err, "asked 3 · answered 2 · failed 1 [host=0,gpu=2] · missing 0 · not asked 5")
}

func TestThrottled_cancelledCallerAsksNoMoreRanks(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	for range cast.Stream(testkit.Soon(t), cast.Throttled(c.members, cast.Throttle{BatchSize: 1}), note, 1) {
		break
	}
	require.Len(t, c.Take(t, 1), 1)
	ctx, cancel := context.WithCancel(testkit.Soon(t))
	go func() {
		c.Take(t, 1) // rank 1 waits
		cancel()
	}()
	slow := cast.Throttled(c.members, cast.Throttle{BatchSize: 2, BatchDelay: time.Hour})
	_, err := cast.Gather(ctx, slow, wait, 1)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "· not asked 6 [")
	require.Regexp(t, `(rank 1 \(host=0/2,gpu=1/4\)|2 ranks \[host=0,gpu=0:2\]): the caller gave up`,
		err.Error())
}

func TestThrottled_invalidArgumentsFailBeforeSending(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 2), 2)
	outside, foreign := c.members, c.members
	outside.region = shape.Of("gpu", 3).Region()
	foreign.err = context.DeadlineExceeded
	for want, m := range map[string]cast.ThrottledMesh[*member]{
		"is not in the mesh's extent": cast.Throttled(outside, cast.Throttle{BatchSize: 1}),
		"context deadline exceeded":   cast.Throttled(foreign, cast.Throttle{BatchSize: 1}),
		"a batch of -1":               cast.Throttled(c.members, cast.Throttle{BatchSize: -1}),
		"no sender": cast.Throttled(members{place: c.place, region: c.region},
			cast.Throttle{BatchSize: 1}),
	} {
		_, err := cast.Gather(testkit.Soon(t), m, who, actor.None{})
		require.ErrorContains(t, err, want)
		_, err = cast.Reduce(testkit.Soon(t), m, who, actor.None{}, cast.Sum[int]())
		require.ErrorContains(t, err, want)
		_, err = cast.Aggregate(testkit.Soon(t), m, who, actor.None{}, cast.Count[int]())
		require.ErrorContains(t, err, want)
		for _, r := range cast.Stream(testkit.Soon(t), m, who, actor.None{}) {
			require.ErrorContains(t, r.Err, want)
		}
		_, err = m.Batches()
		require.True(t, err != nil || want == "no sender")
	}
	_, err := cast.Choose(testkit.Soon(t), cast.Throttled(c.members, cast.Throttle{SamplePercent: 101}),
		who, actor.None{})
	require.ErrorIs(t, err, actor.ErrInvalid)
	_, err = cast.Reduce(testkit.Soon(t), cast.Throttled(c.members, cast.Throttle{}), who, actor.None{}, bad)
	require.ErrorContains(t, err, "fold the answers of who: reducer bad panicked")
}
