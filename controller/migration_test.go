package controller

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// More procs than stop at a time, or slow ones, outlast one request. Their next generation must wait.
func TestRestart_awaitsARankThatItsHostStillStops_CTL11(t *testing.T) {
	r := newRig(t, func(h *fakeHost) { h.still = 3 })
	r.spec.RestartPolicy = RestartPolicy{Restart: actor.Transient, MaxRestarts: 1, Backoff: time.Millisecond}
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	one, err := r.spec.Procs.Extent.Region().Single(0)
	require.NoError(t, err)
	id := idOf(t, ref)
	var restarting sync.WaitGroup
	t.Cleanup(restarting.Wait)
	restarting.Go(func() { // it ends with the test: the imaginary rank never runs again
		_, _ = agent.Restart.Call(t.Context(), ref, agent.RestartRequest{ID: id, Region: &one})
	})
	r.hosts[0].await(t, "create", 2)
	require.GreaterOrEqual(t, r.hosts[0].stopCount(), 4, "three times it still stops")
}
