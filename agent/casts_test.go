package agent_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
)

func TestMergeCasts_addsUpTheRanksOfEachCast(t *testing.T) {
	t.Parallel()
	region := shape.Of("gpu", 4).Region()
	part := func(id string, age time.Duration, answered, waiting shape.Ranks) agent.Casts {
		return agent.Casts{Casts: []agent.RunningCast{{ID: id, Age: age, Left: age, Region: region,
			Answered: answered, Waiting: waiting}}}
	}
	a := part("x", 2, shape.Interval(0, 1), shape.Interval(1, 1))
	b := part("x", 3, shape.Interval(2, 2), shape.Ranks{})
	c := part("y", 9, shape.Ranks{}, shape.Interval(0, 4))
	sum, err := agent.MergeCasts.Fold(a, b)
	require.NoError(t, err)
	sum, err = agent.MergeCasts.Fold(sum, c)
	require.NoError(t, err)
	require.Len(t, sum.Casts, 2)
	require.Equal(t, "y", sum.Casts[0].ID, "the oldest is first")
	x := sum.Casts[1]
	require.Equal(t, []time.Duration{3, 2}, []time.Duration{x.Age, x.Left})
	require.Equal(t, shape.UnionOf(shape.Interval(0, 1), shape.Interval(2, 2)), x.Answered)
	require.Equal(t, shape.Interval(1, 1), x.Waiting)
}

func TestMergeCasts_isBounded(t *testing.T) {
	t.Parallel()
	var sum agent.Casts
	for i := range agent.MaxCasts + 2 {
		var err error
		sum, err = agent.MergeCasts.Fold(sum, agent.Casts{Casts: []agent.RunningCast{{ID: strconv.Itoa(i)}}})
		require.NoError(t, err)
	}
	require.Len(t, sum.Casts, agent.MaxCasts)
	require.Equal(t, 2, sum.More)
	require.ErrorContains(t, agent.CastsRequest{Named: make([]string, agent.MaxCasts+1)}.Check(), "want at most 64")
}
