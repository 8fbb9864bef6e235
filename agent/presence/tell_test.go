package presence

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

func TestPRES12_whatIsToldOfAHostIsToldOnceUntilItChanges(t *testing.T) {
	id, err := subjects.NewHostID("a")
	require.NoError(t, err)
	var teller Teller
	for i, step := range []struct {
		is   Change
		told string
	}{
		{Change{State: Unknown, Unheard: true}, ""},
		{Change{State: Alive, Mode: agent.Open}, ""},
		{Change{State: Alive, Mode: agent.Cordoned}, "host.mode cordoned"},
		{Change{State: Alive, Mode: agent.Cordoned}, ""},
		{Change{State: Suspect, Mode: agent.Cordoned}, "host.suspect suspect"},
		{Change{State: Dead, Mode: agent.Cordoned}, "host.dead failed"},
		{Change{State: Dead, Mode: agent.Cordoned}, ""},
		{Change{State: Alive, Mode: agent.Open}, "host.alive open"},
		{Change{State: Unknown, Mode: agent.Open}, "host.unknown unknown"},
		{Change{State: Dead, Left: true, Mode: agent.Leaving}, "host.left stopped"},
	} {
		step.is.Host = id
		e, news := teller.Tell(step.is)
		require.Equal(t, step.told != "", news, "step %d", i)
		if news {
			require.Equal(t, step.told, e.Step+" "+e.Status, "step %d", i)
			require.Equal(t, id.String(), e.Host)
		}
	}
}
