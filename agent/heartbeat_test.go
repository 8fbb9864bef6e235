package agent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

func TestHeartbeat_countsOnlyForTheHostThatSentIt(t *testing.T) {
	host := read[subjects.HostID]("a-000000000000a")
	good := agent.Heartbeat{Host: host, Incarnation: 1, Seq: 1, Interval: time.Second}
	from := subjects.NewSender(subjects.Host.Principal(host.Label()), host.Proc().Process())
	require.NoError(t, good.Check(from))
	other := read[subjects.Sender]("h-b.b-000000000000b_0-0")
	require.ErrorContains(t, good.Check(other), "sent by h-b.b-000000000000b_0-0")
	require.Error(t, agent.Heartbeat{Interval: time.Second}.Check(from), "no host")
	for what, change := range map[string]func(*agent.Heartbeat){
		"no interval":          func(h *agent.Heartbeat) { h.Interval = 0 },
		"a negative one":       func(h *agent.Heartbeat) { h.Interval = -1 },
		"too many words":       func(h *agent.Heartbeat) { h.Reason = strings.Repeat("x", agent.MaxReason+1) },
		"too many connections": func(h *agent.Heartbeat) { h.Conns = make([]agent.Connection, 9) },
	} {
		bad := good
		change(&bad)
		require.Error(t, bad.Check(from), what)
	}
}
