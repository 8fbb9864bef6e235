package proc

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

func TestPROC4_ofActorsThatHaveEndedTheNewestAreRemembered(t *testing.T) {
	const maxEnded = 20
	a := &procAgent{table: agent.NewTable(), kept: maxEnded}
	for n := range maxEnded + 10 {
		name := strconv.Itoa(n)
		_, err := a.table.Create(agent.Making{ID: name, Ranks: []int{own}})
		require.NoError(t, err)
		a.end(nil, name, agent.Status{Phase: agent.Stopped}, actor.Event{})
		a.end(nil, name, agent.Status{Phase: agent.Failed}, actor.Event{}) // the first word counts
	}
	require.Len(t, a.table.States(""), maxEnded)
	require.Empty(t, a.table.States("9"))
	require.Len(t, a.table.States("10"), 1)
}
