package logs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
)

func TestLogs_ranksOfALostHostHaveEnded(t *testing.T) {
	s := newEnds(grid.Region())
	seen := []agent.State{{Rank: 0, Gen: 1, Status: agent.Status{Phase: agent.Running}},
		{Rank: 1, Status: agent.Status{Phase: agent.Stopped}}}
	s.count(seen)
	require.Equal(t, map[int]string{1: "stopped"}, s.ended())
	s.count(append(seen, agent.State{Rank: 3, Status: agent.Status{Phase: agent.Running}},
		agent.State{Rank: 0, Status: agent.Status{Phase: agent.Failed}}))
	require.Equal(t, map[int]string{1: "stopped", 2: "failed"}, s.ended(),
		"a host's report of an earlier generation has no effect")
	s.count(seen)
	require.Equal(t, map[int]string{1: "stopped", 2: "failed"}, s.ended(), "one list without a rank is no end")
	require.Nil(t, s.all())
	s.count(seen[1:])
	s.count(seen[1:])
	require.Equal(t, map[int]string{0: "failed", 1: "stopped", 2: "failed", 3: "failed"}, s.all())
}
