package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
)

func TestConfigureProc_setsDeadlineAndMailboxSize(t *testing.T) {
	var c config.Config
	require.NoError(t, config.DeliveryTimeout.Set(&c, time.Minute))
	require.NoError(t, config.ActorMailboxSize.Set(&c, 7))
	var o actor.Options
	agent.ConfigureProc(&o, &c)
	require.Equal(t, time.Minute, o.Deadline)
	require.Equal(t, 7, o.Mailbox)
	agent.ConfigureProc(&o, nil)
	require.Equal(t, actor.DefaultDeadline, o.Deadline)
}
