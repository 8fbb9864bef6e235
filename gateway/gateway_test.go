package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/gateway"
)

const nowhere = "castnet.v1.default.cast.demo.counter.add.u-anon.x"

func TestGateway_answersWithoutHostsAndStopsCleanly(t *testing.T) {
	srv := bustest.Server(t)
	g, err := gateway.Start(t.Context(), gateway.Options{Label: "a", Bus: &bus.Options{Server: srv}})
	require.NoError(t, err)
	client := bustest.Open(t, srv).Control()
	m, err := client.Request(t.Context(), bus.Msg{Subject: nowhere})
	require.NoError(t, err)
	require.Equal(t, "503", m.Header.Get(actor.HeaderErrorCode))
	require.Contains(t, m.Header.Get(actor.HeaderError), "no host answers")
	require.NotEmpty(t, m.Data)

	require.NoError(t, client.Publish(nowhere, nil)) // nobody listens: counted, and nothing is cast
	require.Eventually(t, func() bool {
		m, err := client.Request(t.Context(), bus.Msg{Subject: "$SRV.STATS.castnet-gateway." + g.ID().String()})
		require.NoError(t, err)
		return strings.Contains(string(m.Data), `"unanswerable":1`)
	}, 10*time.Second, 10*time.Millisecond)

	require.NoError(t, g.Close(t.Context()))
	require.NoError(t, g.Close(t.Context()), "a second time does nothing")
	_, err = client.Request(t.Context(), bus.Msg{Subject: nowhere})
	require.ErrorIs(t, err, bus.ErrNoResponders)
}
