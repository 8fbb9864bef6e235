package proc_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
)

// fill sends to a rank until its queue is full.
func (r *rig) fill(t *testing.T, rank int, name string) {
	t.Helper()
	for _, size := range []int{1 << 20, 1 << 16, 1 << 12, 1 << 8, 0} {
		require.Eventually(t, func() bool {
			err := noise.Send(t.Context(), actor.RefOf[*counter](r.procs[rank].ID().Actor(name)).Via(r.client),
				make([]byte, size))
			if err != nil {
				require.ErrorIs(t, err, actor.ErrBacklog)
			}
			return err != nil
		}, time.Minute, time.Nanosecond)
	}
}

// noise has no handler anywhere.
var noise = actor.NewEndpoint[*counter, []byte, actor.None]("noise")

func TestStop_arrivesWhileDataIsBlocked_AGT11(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	_, err := r.create(t, 0, "c", 5)
	require.NoError(t, err)
	r.wait(t, 0, "c", agent.Running)
	resume := testproc.Hold(t, r.procs[0], r.client)
	r.fill(t, 0, "c")
	o, err := agent.Stop.CallUrgent(testkit.Soon(t), r.agent(0), agent.StopRequest{ID: "c", Reason: "done"})
	require.NoError(t, err)
	require.Equal(t, agent.Overlay{{Count: 1, Status: agent.Status{Phase: agent.Stopped, Reason: "done"}}}, o)
	resume()
	require.NoError(t, r.client.Flush(testkit.Soon(t)))
}

func TestStop_aheadOfItsCreateAwaitsIt_AGT11(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	resume := testproc.Hold(t, r.procs[0], r.client)
	created, stopped := make(chan error, 1), make(chan agent.Overlay, 1)
	go func() {
		_, err := r.create(t, 0, "c", 5)
		created <- err
	}()
	sent := func() uint64 { return r.client.Stats().Links.Sent }
	require.Eventually(t, func() bool { return sent() >= 2 }, time.Minute, time.Millisecond)
	go func() {
		o, err := agent.Stop.CallUrgent(testkit.Soon(t), r.agent(0), agent.StopRequest{ID: "c", Reason: "done"})
		assert.NoError(t, err)
		stopped <- o
	}()
	refused := func() bool { // what came by the control connection
		i, _ := r.procs[0].Actor(agent.Name)
		return slices.ContainsFunc(i.Endpoints,
			func(e actor.EndpointInfo) bool { return e.Name == "stop" && e.Failed == 1 })
	}
	require.Eventually(t, refused, time.Minute, time.Millisecond)
	require.Empty(t, stopped)
	resume()
	require.NoError(t, <-created)
	require.Equal(t, agent.Overlay{{Count: 1, Status: agent.Status{Phase: agent.Stopped, Reason: "done"}}},
		<-stopped)
}
