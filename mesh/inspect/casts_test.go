package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
)

func TestNewCast_hasAFateForEachAskedRank(t *testing.T) {
	t.Parallel()
	base := shape.Of("host", 2).With("gpu", 4)
	region, err := shape.Select(base, "gpu=0:3")
	require.NoError(t, err)
	c := agent.RunningCast{
		ID: "c", Actor: "trainers-0000000000000", Endpoint: "step", From: "p/0.0/a", Age: time.Second, Left: time.Minute,
		Region: region, Asked: shape.Interval(1, 5), Gone: shape.Interval(5, 1), Answered: shape.Interval(1, 1), Waiting: shape.Interval(2, 1),
	}
	require.Equal(t, Cast{
		ID: "c", Actor: "trainers", Endpoint: "step", From: "p/0.0/a", Age: time.Second, Left: time.Minute,
		Region: "host=*,gpu=1:3 | host=1,gpu=0", Asked: 5, Answered: 1, Failed: 2,
		Waiting: "host=0,gpu=2", Silent: "host=1,gpu=1",
	}, newCast(base, c, map[int]bool{4: true}, nil))

	c.Region = base.Region()
	c.Asked = shape.Ranks{}
	require.Empty(t, newCast(base, c, nil, nil).Region, "the whole mesh")
	require.Equal(t, 4, newCast(shape.Of("host", 1).With("gpu", 4), c, nil, nil).Asked, "the mesh has shrunk")
}
