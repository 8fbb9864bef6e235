package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// asker notes the serial of its question.
type asker struct{ serial uint64 }

func (a *asker) Asked(serial uint64) { a.serial = serial }

// broken are the serials of the links that are said to be over.
func (b *bench) broken() (all []uint64) {
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
	over := b.broken()
	require.Len(t, over, 1)
	require.LessOrEqual(t, first, over[0])
	require.Greater(t, second, over[0])
	b.leave()
	b.arrive(Arrival{Seq: 1})
	require.True(t, b.core.OnSenderReset(b.peer, &wire.ResetBody{Seq: 1, Text: "enough"}))
	third := ask()
	over = b.broken()
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

const waitSize = 100 // of a message that waits for room, with its cost

func waiting() wire.Envelope {
	return wire.Envelope{Sender: "s", Wait: true, Body: make([]byte, waitSize)}
}

func TestReopen_formerLinksCountInTheNextWindow_LINK5(t *testing.T) {
	b := newBench(t, Config{WaitWindow: 3 * (waitSize + messageCost)})
	cost := uint64(waitSize + messageCost)
	for range 3 {
		require.NoError(t, b.send(waiting()))
	}
	b.leave()
	b.acked(1)
	b.core.resetOutgoing(b.peer, LinkReset, "enough")
	b.effects()
	require.NoError(t, b.send(waiting()), "one opens the link, or nobody would say what is held")
	require.Error(t, b.send(waiting()))
	b.leave()
	require.Error(t, b.send(waiting()))
	b.after(200 * time.Millisecond)
	require.Equal(t, wire.Probe, b.leave()[0].Kind, "it is asked")
	says := func(acked, former uint64) {
		k := wire.AckState{Acked: acked, ReceivedBytes: b.peer.out.sentBytes}
		require.NoError(t, b.core.OnState(b.now, b.peer, &wire.LinkStateBody{Progress: k, Former: former}))
	}
	says(1, 0) // of the former link
	require.Error(t, b.send(waiting()))
	says(2, 2*cost)
	require.Error(t, b.send(waiting()), "two are held, and one has come")
	says(2, cost)
	require.NoError(t, b.send(waiting()))
	says(2, 2*cost)
	require.Equal(t, cost, b.peer.out.former, "what came too late is old")
	require.Error(t, b.send(waiting()))
	says(2, 0)
	require.NoError(t, b.send(waiting()))
}

func TestReopen_restartedPeerFreesTheWaitWindow_LINK5(t *testing.T) {
	cost := uint64(waitSize + messageCost)
	b := newBench(t, Config{WaitWindow: 3 * (waitSize + messageCost)})
	for range 3 {
		require.NoError(t, b.send(waiting()))
	}
	b.leave()
	b.acked(1)
	b.core.resetOutgoing(b.peer, LinkReset, "enough")
	require.NoError(t, b.send(waiting()))
	b.leave()
	require.Error(t, b.send(waiting()))
	// As its receiver it says nothing of them, and counts them as taken up on this link.
	require.NoError(t, b.core.OnState(b.now, b.peer,
		&wire.LinkStateBody{Progress: wire.AckState{Acked: 2, ReceivedBytes: b.peer.out.sentBytes,
			Waited: 2 * cost}}))
	require.Zero(t, b.peer.out.waits())
	require.NoError(t, b.send(waiting()))
}

func TestReopen_receiverReportsWhatItHoldsOfFormerLinks_LINK5(t *testing.T) {
	b := newBench(t, Config{WaitWindow: 4000})
	come := func(n, prev, waits uint64) {
		a, ok := b.core.Arrive(b.now, b.peer, Arrival{Seq: n, PrevSeq: prev})
		require.True(t, ok)
		a.Waits = waits
		b.core.Done(b.now, b.peer, a, nil)
	}
	state := func() (former, waited uint64) {
		b.after(200 * time.Millisecond)
		all := b.said(wire.LinkState)
		require.NotEmpty(t, all)
		s := all[len(all)-1].(*wire.LinkStateBody)
		return s.Former, s.Progress.Waited
	}
	come(1, 0, 500)
	former, _ := state()
	require.Zero(t, former)
	b.core.OnSenderReset(b.peer, &wire.ResetBody{Seq: 1, Text: "enough"})
	b.core.Consumed(b.now, b.peer, 100) // while no link is open
	come(2, 0, 300)
	require.Nil(t, b.core.piggybackAck(b.peer), "a head has no room for it")
	former, waited := state()
	require.EqualValues(t, 400, former)
	require.Zero(t, waited)
	come(3, 0, 50) // opened again: it all counts
	former, _ = state()
	require.EqualValues(t, 700, former)
	b.core.Consumed(b.now, b.peer, 690)
	former, waited = state()
	require.EqualValues(t, 10, former)
	require.Zero(t, waited)
	b.core.Consumed(b.now, b.peer, 60)
	former, waited = state()
	require.Zero(t, former)
	require.EqualValues(t, 50, waited)
	require.Zero(t, b.peer.in.held)
}

func TestReopen_awaitedCreditIsNotSilence_LINK13(t *testing.T) {
	b := newBench(t, Config{WaitWindow: 1})
	b.now = Instant(time.Hour)
	require.NoError(t, b.send(waiting()))
	require.Error(t, b.send(waiting()))
	require.Len(t, b.links(), 1)
	b.after(200 * time.Millisecond)
	require.Equal(t, wire.Probe, b.leave()[0].Kind, "it is asked as any other")
	require.Empty(t, b.broken())
}
