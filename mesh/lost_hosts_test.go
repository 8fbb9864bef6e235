package mesh_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// A program without knowledge of a dead host names it and waits for no deadline, with any listeners
// on the bus.
func TestStop_namesHostsThatAreGone_MESH5(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	stranger := bustest.Open(t, c.Server, func(o *bus.Options) { o.Token = c.Server.Token() })
	_, err := stranger.Data().Subscribe(">", func(bus.Msg) {})
	require.NoError(t, err)
	mine, err := c.Allocate(t.Context(), c.here(t), "mine", shape.Of("host", 1))
	require.NoError(t, err)
	gone, err := subjects.NewHostID("gone")
	require.NoError(t, err)
	told := c.watchEvents(t)
	both, err := c.Connect(t).HostsOf("both", gone, mine.Hosts()[0])
	require.NoError(t, err)
	began := time.Now()
	var failed *mesh.HostsError
	require.ErrorAs(t, both.Slice("host", 0, 1).Take(t.Context()), &failed)
	require.Equal(t, gone, failed.Failed[0].Host)
	require.NoError(t, both.Shutdown(t.Context(), "done"))
	require.Less(t, time.Since(began), 30*time.Second, "attach.timeout is 1 min")
	var e actor.Event
	for e.Step != "hosts.shutdown.success" || e.Name != "both" {
		e = <-told
	}
	require.Contains(t, e.Reason, gone.String())
	require.NotContains(t, e.Reason, mine.Hosts()[0].String())
}
