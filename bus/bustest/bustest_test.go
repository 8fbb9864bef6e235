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

func TestServer_endsWithItsTest_BTS1(t *testing.T) {
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

// failing is a test that records its failure.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatalf(string, ...any) { f.failed = true }

func TestCheckAllocBound_failsAboveItsBound_BTS2(t *testing.T) {
	var kept []byte
	for size, fails := range map[int]bool{1 << 20: false, 65 << 20: true} {
		f := &failing{TB: t}
		bustest.CheckAllocBound(f, make([]byte, 1<<10), func() { kept = make([]byte, size) })
		require.Equal(t, fails, f.failed, "%d bytes", len(kept))
	}
}
