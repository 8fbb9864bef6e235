package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestWatchHosts_reportsHostsAsRanks_MESH6(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	cfg := &config.Config{}
	require.NoError(t, config.SupervisionDeadAfter.Override(cfg, 2*time.Second))
	conn := c.Connect(t, configured(cfg))
	mine, err := conn.Allocate(t.Context(), c.here(t), "mine", shape.Of("host", 2))
	require.NoError(t, err)
	absent, err := subjects.NewHostID("absent")
	require.NoError(t, err)
	fleet, err := conn.HostsOf("fleet", append(mine.Hosts(), absent)...)
	require.NoError(t, err)

	said := make(chan string, 64)
	go func() {
		defer close(said)
		for e, err := range fleet.Changes(t.Context()) {
			said <- fmt.Sprintf("%s %s %s %v", e.Point, e.Step, e.Status, err)
		}
	}()
	until := func(want string) {
		t.Helper()
		for now := range said {
			if now == want {
				return
			}
		}
		require.Fail(t, "no event", want)
	}
	until("host=2/3 host.dead failed <nil>")
	agentOf := agent.Of(mine.Hosts()[1].Proc()).Via(conn.Proc())
	_, err = agent.Cordon.Call(t.Context(), agentOf, agent.CordonRequest{Cordon: true, Reason: "new disks"})
	require.NoError(t, err)
	until("host=1/3 host.mode cordoned <nil>")
	require.NoError(t, mine.Shutdown(t.Context(), "done"))
	until("host=0/3 host.left stopped <nil>")

	left := map[int]string{}
	for e, err := range fleet.Watch(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, actor.KindHost, e.Kind)
		if left[e.View] = e.Status; len(left) == 3 {
			break
		}
	}
	require.Equal(t, map[int]string{0: "stopped", 1: "stopped", 2: "failed"}, left,
		"a later watch has the earlier ends")
}
