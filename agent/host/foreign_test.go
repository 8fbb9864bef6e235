package host_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
)

func TestForeign_requestsAreAnsweredWhileDataIsBlocked_HOST12(t *testing.T) {
	t.Parallel()
	r := newRig(t, local(t))
	gate, entered := make(chan struct{}), make(chan struct{})
	resume := sync.OnceFunc(func() { close(gate) })
	defer resume()
	require.NoError(t, r.host.Proc().Subscribe("stall", func(bus.Msg) {
		close(entered)
		<-gate // on the data pump
	}))
	require.NoError(t, r.client.Bus().Data().Publish("stall", nil))
	select {
	case <-entered:
	case <-time.After(20 * time.Second):
		t.Fatal("the data are not held up")
	}
	for _, subject := range []string{
		"castnet.v1.default.hr." + r.host.ID().String() + ".info.u-anon.x", "castnet.v1.default.hr.any.info.u-anon.x",
		"$SRV.PING.castnet-host", "$SRV.INFO.castnet-host", "$SRV.STATS.castnet-host",
	} {
		m, err := r.client.Bus().Control().Request(t.Context(), bus.Msg{Subject: subject})
		require.NoError(t, err, subject)
		var got map[string]any
		require.NoError(t, json.Unmarshal(m.Data, &got), subject)
		require.Equal(t, r.host.ID().String(), got["id"], subject)
	}
}
