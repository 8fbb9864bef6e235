package logs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
)

func TestLogs_ranksOfALostHostHaveEnded(t *testing.T) {
	w := newEndWatch(nil, target.Resolved{Base: grid, Region: grid.Region()})
	ends := func() map[int]string { return w.seen.ends(0) }
	seen := []agent.State{{Rank: 0, Gen: 1, Status: agent.Status{Phase: agent.Running}}, {Rank: 1, Status: agent.Status{Phase: agent.Stopped}}}
	absent := map[int]int{}
	w.count(seen, absent)
	require.Equal(t, map[int]string{1: "stopped"}, ends())
	w.count(append(seen, agent.State{Rank: 3, Status: agent.Status{Phase: agent.Running}}, agent.State{Rank: 0, Status: agent.Status{Phase: agent.Failed}}), absent)
	require.Equal(t, map[int]string{1: "stopped", 2: "failed"}, ends(), "what another host knows of an earlier generation is over")
	w.count(seen, absent)
	require.Equal(t, map[int]string{1: "stopped", 2: "failed"}, ends(), "once is nothing")
	w.count(seen[1:], absent)
	w.count(seen[1:], absent)
	require.Equal(t, map[int]string{0: "failed", 1: "stopped", 2: "failed", 3: "failed"}, ends())
}
