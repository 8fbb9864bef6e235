package actor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// A sender may have found a port just before it was gone.
func TestPort_sendDuringCloseIsRefused_PORT1(t *testing.T) {
	to := newSink(t)
	p := to.p
	used, closed, ended := OpenOnce[int](p), OpenOnce[int](p), OpenOnce[int](p)
	total, err := OpenAccumulator(p, Count())
	require.NoError(t, err)
	last, err := OpenAccumulator(p, Count())
	require.NoError(t, err)
	relay := to.relay(t, RelayOptions{})
	late := func(raw RawPort, v any) error {
		return raw.pt.recv(Incoming{Local: true, Envelope: wire.Envelope{Kind: wire.Message}, Value: v})
	}
	require.NoError(t, late(used.port.raw, 1))
	closed.Close()
	total.Close()
	require.NoError(t, relay.Close())
	ended.port.raw.pt.closed(ErrStopped)
	last.states.raw.pt.closed(ErrStopped)
	for _, once := range []*OncePort[int]{used, closed, ended} {
		require.ErrorIs(t, late(once.port.raw, 1), ErrPortGone)
	}
	for _, port := range []*AccumulatorPort[uint64, None]{total, last} {
		require.ErrorIs(t, late(port.states.raw, None{}), ErrPortGone)
		require.Zero(t, port.Latest())
	}
	require.ErrorIs(t, late(relay.raw, []int{1}), ErrPortGone)
}
