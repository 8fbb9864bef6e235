package integration

import (
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
)

// A host hangs during the takeover. The former owner could still give it orders.
func TestTakeOver_returnsAfterTheSlowestHostHasAccepted_MESH14(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	procs := c.spawn(t, c.connect(t), 1)
	other := c.connect(t, func(o *mesh.Options) {
		require.NoError(t, config.ProcQueryTimeout.Override(o.Config, time.Second))
	})
	claims := func(rank int) (claims []agent.Claim) {
		states, err := agent.Get.Call(testkit.Soon(t), agent.Of(procs.Describe().Hosts[rank].Proc()).Via(other.Proc()),
			agent.GetRequest{ID: procs.ID().String()})
		require.NoError(t, err)
		for _, s := range states {
			if s.Claim != nil {
				claims = append(claims, *s.Claim)
			}
		}
		return claims
	}

	slow := c.nodes[1]
	proctest.Suspend(t, slow.PID())
	var resumed atomic.Bool
	resume := sync.OnceFunc(func() {
		resumed.Store(true)
		slow.Send(t, syscall.SIGCONT)
	})
	defer resume() // a stopped process would not end with the test
	type result struct {
		procs   mesh.ProcMesh
		err     error
		resumed bool
	}
	taken := make(chan result, 1)
	go func() {
		mine, err := procs.Via(other).TakeOver(testkit.Soon(t), mesh.Takeover{Epoch: 1})
		taken <- result{mine, err, resumed.Load()}
	}()
	testkit.Until(t, "the other host accepts the owner", func() bool { return claims(0)[0].Epoch == 2 })
	time.Sleep(300 * time.Millisecond) // for a takeover that returns too early
	resume()
	got := testkit.Next(t, taken)
	require.NoError(t, got.err)
	require.True(t, got.resumed, "it returned while a host hung")
	require.Equal(t, []agent.Claim{{Epoch: 2, Owner: got.procs.Describe().Owner}}, claims(1))
	require.NoError(t, got.procs.Stop(testkit.Soon(t)))
}
