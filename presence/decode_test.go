package presence

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// The watcher accepts or drops any bytes from foreign hosts and servers, and any echo.
func FuzzWatcherInput(f *testing.F) {
	id := testproc.HostID(f, "host")
	w := newWatcher(f, bustest.Server(f))
	f.Cleanup(w.Watch([]subjects.HostID{id}, func(Change) {}))
	beat, err := wire.Marshal(agent.Heartbeat{Host: id, Incarnation: 1, Seq: 1,
		Conns: []agent.Connection{{Server: "s", Client: 7}}})
	require.NoError(f, err)
	end, err := wire.Marshal(agent.Connection{Server: "s", Client: 7})
	require.NoError(f, err)
	for _, data := range [][]byte{
		beat, end, {0xa0}, {}, make([]byte, 16),
		[]byte(`{"server":{"id":"s"},"client":{"id":7},"reason":"Client Closed"}`),
		[]byte(`{"server":` + strings.Repeat(`{"":`, 50_000)),
		[]byte(`{"reason":"` + strings.Repeat(`\ud800`, 50_000) + `"}`),
	} {
		f.Add(data)
	}
	subject := subjects.Space{}.Heartbeat(agent.KindHostHeartbeat, hostSender(id))
	f.Fuzz(func(t *testing.T, data []byte) {
		bustest.CheckAllocBound(t, data, func() { w.onHeartbeat(bus.Msg{Subject: subject, Data: data}) })
		bustest.CheckAllocBound(t, data, func() { w.onDisconnectHint(bus.Msg{Subject: subject, Data: data}) })
		bustest.CheckAllocBound(t, data, func() { w.onEcho(bus.Msg{Data: data}) })
		bustest.CheckAllocBound(t, data, func() {
			if c, ok := parseDisconnect(data); ok {
				require.NotEmpty(t, c.Server)
			}
		})
	})
}
