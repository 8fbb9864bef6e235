package cast_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

func TestReduce_repliesReplaceAcknowledgements(t *testing.T) {
	c := newCluster(t, shape.Of("host", 2).With("gpu", 6), 6)
	tap := bustest.Open(t, c.server)
	var said atomic.Int64
	_, err := tap.Control().Subscribe(c.client.Space().ControlsOf(c.client.ID().Process()),
		func(bus.Msg) { said.Add(1) })
	require.NoError(t, err)
	require.NoError(t, tap.Control().Flush(testkit.Soon(t)))
	for range 20 { // a process may have been kept from answering in time
		before := said.Load()
		sum, err := cast.Reduce(testkit.Soon(t), c.members, who, actor.None{}, cast.Sum[int]())
		require.NoError(t, err)
		require.Equal(t, 66, sum)
		require.NoError(t, c.client.Flush(testkit.Soon(t)), "the fate of each is known")
		require.NoError(t, c.client.Bus().Control().Flush(testkit.Soon(t)))
		require.NoError(t, tap.Control().Flush(testkit.Soon(t)))
		if said.Load() == before {
			return
		}
	}
	t.Fatal("each cast was acknowledged")
}
