package host_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// beats are the heartbeats of all hosts.
func (r *rig) beats(t *testing.T) <-chan agent.Heartbeat {
	t.Helper()
	all := make(chan agent.Heartbeat, 1024)
	_, err := r.client.Bus().Control().Subscribe(subjects.Space{}.Heartbeats(agent.KindHostHeartbeat),
		func(m bus.Msg) {
			s, err := subjects.Space{}.Parse(m.Subject)
			if err != nil {
				t.Error(err)
				return
			}
			var b agent.Heartbeat
			if err = wire.Unmarshal(m.Data, &b); err == nil {
				err = b.Check(s.Sender)
			}
			if err != nil {
				t.Error(err)
				return
			}
			all <- b
		})
	require.NoError(t, err)
	return all
}

// until receives heartbeats in order, up to a wanted one.
func until(t *testing.T, beats <-chan agent.Heartbeat, wanted func(agent.Heartbeat) bool) agent.Heartbeat {
	t.Helper()
	last, end := agent.Heartbeat{}, time.After(20*time.Second)
	for {
		select {
		case b := <-beats:
			if last.Seq > 0 {
				require.Equal(t, last.Seq+1, b.Seq)
				require.Equal(t, last.Incarnation, b.Incarnation)
			}
			if last = b; wanted(b) {
				return b
			}
		case <-end:
			require.FailNow(t, "no such heartbeat", "the last: %+v", last)
		}
	}
}

func often(t *testing.T) func(*host.Options) {
	return func(o *host.Options) {
		o.Config = &config.Config{}
		require.NoError(t, config.SupervisionHeartbeatInterval.Override(o.Config, 20*time.Millisecond))
	}
}

// HOST-12
func TestHost_sendsHeartbeatsUntilItsLastProcEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, local(t), often(t))
	beats := r.beats(t)
	b := until(t, beats, func(b agent.Heartbeat) bool { return b.Seq > 5 })
	require.Equal(t, r.host.ID(), b.Host)
	require.Equal(t, 20*time.Millisecond, b.Interval)
	require.Len(t, b.Conns, 2)
	require.NotEqual(t, b.Conns[0], b.Conns[1])
	require.False(t, b.Closing)
	r.create(t, r.mesh(t, 2))
	r.close()
	b = until(t, beats, func(b agent.Heartbeat) bool { return b.Closing })
	require.Equal(t, "it was closed", b.Reason)
	until(t, beats, func(b agent.Heartbeat) bool { return b.Goodbye })
	require.Len(t, r.events, 2, "the ends came before, on the same road")
	require.Empty(t, beats)
}

func TestHost_announcesWhyItLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t, local(t), often(t))
	beats := r.beats(t)
	why := "maintenance" + strings.Repeat("!", 2*agent.MaxReason)
	_, err := agent.StopAll.Call(t.Context(), r.agent(), agent.StopAllRequest{Reason: why})
	require.NoError(t, err)
	b := until(t, beats, func(b agent.Heartbeat) bool { return b.Closing })
	require.Equal(t, why[:agent.MaxReason], b.Reason)
	require.False(t, b.Goodbye)
	r.close()
	b = until(t, beats, func(b agent.Heartbeat) bool { return b.Goodbye })
	require.Equal(t, why[:agent.MaxReason], b.Reason, "the first word stands")
}

func TestHost_heartbeatShowsWhetherItIsSchedulable(t *testing.T) {
	t.Parallel()
	r := newRig(t, local(t), often(t))
	beats := r.beats(t)
	says := func(mode agent.HostMode) agent.Heartbeat {
		return until(t, beats, func(b agent.Heartbeat) bool { return b.Mode == mode })
	}
	_, err := agent.Cordon.Call(t.Context(), r.agent(), agent.CordonRequest{Cordon: true, Reason: "new disks"})
	require.NoError(t, err)
	require.Equal(t, "new disks", says(agent.ModeCordoned).Reason)
	_, err = agent.Cordon.Call(t.Context(), r.agent(), agent.CordonRequest{})
	require.NoError(t, err)
	require.Empty(t, says("").Reason)
	_, err = agent.StopAll.Call(t.Context(), r.agent(), agent.StopAllRequest{Reason: "over"})
	require.NoError(t, err)
	require.Equal(t, "over", says(agent.ModeLeaving).Reason)
}
