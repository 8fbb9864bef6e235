package link

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// asker records the serial of its question.
type asker struct{ serial uint64 }

func (a *asker) Asked(serial uint64) { a.serial = serial }

// brokenSerials are the serials of the links reported as over.
func (b *bench) brokenSerials() (all []uint64) {
	for _, e := range b.effects() {
		if e.Kind == EffectBroken {
			all = append(all, e.Serial)
		}
	}
	return all
}

func TestReopen_callOnTheNextLinkOutlivesTheFormerOne_LINK5(t *testing.T) {
	b := newBench(t, Config{})
	ask := func() uint64 {
		a := &asker{}
		e := wire.Envelope{Kind: wire.Message, Sender: "s", Body: []byte("?")}
		require.NoError(t, b.core.Send(b.now, b.to, &e, Mark{Call: a}, 0))
		require.NotZero(t, a.serial)
		return a.serial
	}
	first := ask()
	b.leave()
	b.core.resetOutgoing(b.peer, LinkReset, "enough")
	second := ask() // before anybody was told of it
	over := b.brokenSerials()
	require.Len(t, over, 1)
	require.LessOrEqual(t, first, over[0])
	require.Greater(t, second, over[0])
	b.leave()
	b.arrive(Arrival{Seq: 1})
	require.True(t, b.core.OnSenderReset(b.peer, &wire.ResetBody{Seq: 1, Text: "enough"}))
	third := ask()
	over = b.brokenSerials()
	require.Len(t, over, 1)
	require.LessOrEqual(t, second, over[0], "its answer may have gone with the link from the peer")
	require.Greater(t, third, over[0])
}

func TestReopen_unqueuedCallHasNoSerial_LINK5(t *testing.T) {
	b := newBench(t, Config{Outbox: 10})
	b.core.OnDisconnect()
	b.post("waits")
	a := &asker{}
	e := wire.Envelope{Kind: wire.Message, Sender: "s", Body: make([]byte, 100)}
	require.Error(t, b.core.Send(b.now, b.to, &e, Mark{Call: a}, 0))
	require.Zero(t, a.serial)
}
