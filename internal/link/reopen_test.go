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

// The peer still has its link to an earlier process of this name, and answers on it. The reset of that
// link, or the next opening, overtakes the answer.
func TestReopen_callEndsWithTheLinkToAnEarlierProcess_LINK6(t *testing.T) {
	reset := wire.ResetBody{Seq: 16, Text: "enough"}
	for name, lose := range map[string]func(*testing.T, *bench){
		"the reset comes first": func(t *testing.T, b *bench) {
			require.True(t, b.core.OnSenderReset(b.peer, &reset))
			require.Equal(t, "duplicate", b.arrive(Arrival{Seq: 16, PrevSeq: 15}))
		},
		"the answer comes first": func(t *testing.T, b *bench) {
			require.Equal(t, "parked", b.arrive(Arrival{Seq: 16, PrevSeq: 15}))
			require.True(t, b.core.OnSenderReset(b.peer, &reset))
		},
		"the opening follows the answer": func(t *testing.T, b *bench) {
			require.Equal(t, "parked", b.arrive(Arrival{Seq: 16, PrevSeq: 15}))
			require.Equal(t, "17", b.arrive(Arrival{Seq: 17}))
		},
		"the opening comes first": func(t *testing.T, b *bench) {
			require.Equal(t, "17", b.arrive(Arrival{Seq: 17}))
			require.True(t, b.core.OnSenderReset(b.peer, &reset))
			require.Equal(t, "18", b.arrive(Arrival{Seq: 18, PrevSeq: 17}), "the new link goes on")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{})
			a := &asker{}
			e := wire.Envelope{Kind: wire.Message, Sender: "s", Body: []byte("?")}
			require.NoError(t, b.core.Send(b.now, b.to, &e, Mark{Call: a}, 0))
			b.core.OnProbe(b.now, b.peer, 16, 15)
			lose(t, b)
			require.False(t, b.core.OnSenderReset(b.peer, &reset), "once")
			over := b.brokenSerials()
			require.Len(t, over, 1)
			require.LessOrEqual(t, a.serial, over[0])
		})
	}
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
