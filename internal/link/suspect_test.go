package link_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
)

// A wildcard listener keeps the server from reporting that nobody listens.
func TestSuspect_findsAnAbsentPeerDespiteAWildcardListener_LINK13(t *testing.T) {
	for name, known := range map[string]bool{"it was never there": false, "it was heard of": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := bustest.Server(t)
				_, err := bustest.Open(t, srv).Data().Subscribe(">", func(bus.Msg) {})
				require.NoError(t, err)
				a := newNode(t, srv, "a", link.Config{})
				b := nodeOn(t, bustest.Open(t, srv), newHost(t, "b"), link.Config{})
				to, most := a.Target(newHost(t, "c").Proc().Actor("x").Port("in")), 5*time.Second
				if known {
					to, most = a.Target(b.to("x")), 10*time.Second
					require.NoError(t, a.Send(to, say("first"), link.Mark{}, 0))
					require.NoError(t, a.Flush(testkit.Soon(t)))
					require.NoError(t, b.bus.Close(testkit.Soon(t))) // as one that is killed: it says nothing
				}
				began := time.Now()
				require.NoError(t, a.Send(to, say("second"), link.Mark{}, link.Never))
				require.NoError(t, a.Flush(testkit.Soon(t)))
				require.LessOrEqual(t, time.Since(began), most)
				require.Len(t, a.allFates(), 1)
				require.Equal(t, link.NoProcess, a.allFates()[0].Reason)
			})
		})
	}
}

// The peer's connection is there, so it may still handle its messages.
func TestSuspect_silentButConnectedPeerIsPresent_LINK13(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		_, err := bustest.Open(t, srv).Data().Subscribe(">", func(bus.Msg) {})
		require.NoError(t, err)
		a, b := newNode(t, srv, "a", link.Config{}), newNode(t, srv, "b", link.Config{})
		all := func(bus.Msg) bool { return true }
		b.loses.Store(&all)
		require.NoError(t, a.Send(a.Target(b.to("x")), say("hello"), link.Mark{}, link.Never))
		time.Sleep(50 * time.Second)
		require.Empty(t, a.allFates())
		time.Sleep(15 * time.Second)
		require.Equal(t, link.LinkReset, a.allFates()[0].Reason, "Config.Silence is over")
	})
}
