package actor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

// A proc that sends to a client follows the mesh of that client.
func TestMembers_clientsThatLeftAreNotFollowed_DEL5(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		srv := bustest.Server(t, func(o *embed.Options) { o.DontListen = true })
		p := start(t, srv, "old")
		came := func(clients int) {
			for range clients {
				c := start(t, srv, "client")
				box := spawn(t, c)
				_, err := add.Call(t.Context(), box.Via(p), 1)
				require.NoError(t, err)
				require.NoError(t, c.Close(testkit.Soon(t)))
				require.NoError(t, c.Bus().Close(testkit.Soon(t)))
			}
			time.Sleep(2 * time.Minute)
			require.Empty(t, p.Info().Peers)
		}
		came(70)
		before := srv.NumSubs()
		came(30)
		require.Equal(t, before, srv.NumSubs())
	})
}
