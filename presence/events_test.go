package presence

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testproc"
)

func TestEventReporter_reportsEachChangeOnce_PRES11(t *testing.T) {
	id := testproc.HostID(t, "a")
	var teller EventReporter
	for i, step := range []struct {
		is   Change
		told string
	}{
		{Change{State: Unknown, NeverHeard: true}, ""},
		{Change{State: Alive, Mode: agent.ModeOpen}, ""},
		{Change{State: Alive, Mode: agent.ModeCordoned}, "host.mode cordoned"},
		{Change{State: Alive, Mode: agent.ModeCordoned}, ""},
		{Change{State: Suspect, Mode: agent.ModeCordoned}, "host.suspect suspect"},
		{Change{State: Dead, Mode: agent.ModeCordoned}, "host.dead failed"},
		{Change{State: Dead, Mode: agent.ModeCordoned}, ""},
		{Change{State: Alive, Mode: agent.ModeOpen}, "host.alive open"},
		{Change{State: Unknown, Mode: agent.ModeOpen}, "host.unknown unknown"},
		{Change{State: Dead, Graceful: true, Mode: agent.ModeLeaving}, "host.left stopped"},
	} {
		step.is.Host = id
		e, news := teller.Event(step.is)
		require.Equal(t, step.told != "", news, "step %d", i)
		if news {
			require.Equal(t, step.told, e.Step+" "+e.Status, "step %d", i)
			require.Equal(t, id.String(), e.Host)
		}
	}
}
