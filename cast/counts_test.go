package cast_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestCounts_eachCastCountsOnceWithItsOutcome(t *testing.T) {
	t.Parallel()
	c := newCluster(t, twoByFour(), 4)
	ctx := testkit.Soon(t)
	require.Empty(t, cast.CountsOf(c.client))

	_, err := cast.Gather(ctx, c.members, who, actor.None{})
	require.NoError(t, err)
	_, err = cast.Gather(ctx, c.members, refuse, 3)
	require.Error(t, err)
	_, err = cast.Gather(ctx, c.in(t, "host=0,gpu=3"), refuse, 3)
	require.Error(t, err)
	require.NoError(t, cast.Send(ctx, c.members, note, 1))
	_, err = cast.Choose(ctx, c.members, who, actor.None{})
	require.NoError(t, err)
	_, err = cast.Choose(ctx, c.in(t, "host=0,gpu=3"), refuse, 3)
	require.Error(t, err)
	_, err = cast.Reduce(ctx, c.members, who, actor.None{}, unknown)
	require.ErrorContains(t, err, "does not declare") // refused here: it does not count
	for range cast.ReduceStream(ctx, c.members, who, actor.None{}, cast.Sum[int](), time.Second) {
	}
	late, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = cast.Reduce(late, c.in(t, "host=1,gpu=1"), wait, 5, cast.Sum[int]())
	require.Error(t, err)
	for range cast.Stream(ctx, c.members, who, actor.None{}) {
		break
	}
	gone, leave := context.WithCancel(ctx)
	time.AfterFunc(50*time.Millisecond, leave)
	for range cast.Stream(gone, c.in(t, "host=1,gpu=1"), wait, 5) {
	}

	counts := cast.CountsOf(c.client)
	for i := range counts {
		require.Positive(t, counts[i].Duration)
		counts[i].Duration = 0
	}
	require.Equal(t, []cast.KindCount{
		{Kind: "choose", Complete: 1, Failed: 1, RanksAsked: 2, RanksFailed: 1},
		{Kind: "gather", Complete: 1, Partial: 1, Failed: 1, RanksAsked: 17, RanksFailed: 2},
		{Kind: "reduce", Complete: 1, Failed: 1, RanksAsked: 9, RanksMissing: 1},
		{Kind: "send", Complete: 1, RanksAsked: 8},
		{Kind: "stream", Abandoned: 2, RanksAsked: 9},
	}, counts)
}

func TestCounts_areThoseOfAProcess(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, twoByFour(), 4, 4)
	_, err := cast.Gather(testkit.Soon(t), c.in(t, "host=0"), later, "x")
	require.NoError(t, err)
	require.Equal(t, uint64(4), cast.CountsOf(c.procs[0])[0].Casts(), "of all its procs")
	require.Empty(t, cast.CountsOf(c.procs[1]))
}
