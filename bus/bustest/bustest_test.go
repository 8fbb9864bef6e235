package bustest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBTS1_serverAndBusEndWithTheirTest(t *testing.T) {
	var srv *embed.Server
	var b *bus.Bus
	t.Run("inner", func(t *testing.T) {
		srv = bustest.Server(t, func(o *embed.Options) { o.Token = "t" })
		b = bustest.Open(t, srv, func(o *bus.Options) { o.Token = "t" })
		require.NoError(t, b.Err())
		require.Equal(t, 2, srv.NumClients())
	})
	<-b.Done()
	require.NoError(t, b.Err())
	require.Zero(t, srv.NumClients())
}

func TestOpen_worksInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.Open(t, bustest.Server(t))
		time.Sleep(time.Hour) // virtual
		require.NoError(t, b.Err())
	})
}
