package link

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

func TestReset_endsTheLinkAtBothEnds_LINK6(t *testing.T) {
	b := newBench(t, Config{NoResponderGrace: time.Second})
	b.post("hinted")
	b.leave()
	b.core.OnHint(b.now, b.peer, 1)
	b.post("sent")
	b.leave()
	b.core.peers.get(b.peer.id)
	b.post("large")
	b.peer.out.window = 1
	require.NoError(t, b.send(wire.Envelope{Sender: "s", Body: []byte(strings.Repeat("transfer", 1<<17))}))
	b.core.resetOutgoing(b.peer, LinkReset, "enough")
	effects := b.core.effects
	require.Equal(t, EffectBroken, effects[len(effects)-1].Kind)
	require.Equal(t, wire.ResetBody{Seq: 2, Text: "enough"}, effects[len(effects)-2].Body)
	require.Equal(t, []string{"hinted never", "sent unknown", "large never", "transfer never"}, b.fates())

	require.NoError(t, b.core.OnState(b.now, b.peer, &wire.LinkStateBody{Missing: []uint64{0, 2}}))
	require.Equal(t, []any{wire.ResetBody{Seq: 2, Text: "what is missing was given up"}},
		b.controls(wire.SenderReset), "told again when it asks")
	b.post("anew")
	require.Equal(t, [][2]uint64{{3, 0}}, b.links())
	require.NoError(t, b.core.OnState(b.now, b.peer,
		&wire.LinkStateBody{Progress: wire.AckState{Acked: 2, ReceivedBytes: 1 << 40}}))
	require.Zero(t, b.peer.out.acked, "a State of the former link does not count")
	b.core.OnReceiverReset(b.peer, &wire.ResetBody{Seq: 2})
	require.Empty(t, b.fates())
	require.NoError(t, b.core.OnState(b.now, b.peer, &wire.LinkStateBody{Missing: []uint64{1, 2}}))
	require.Equal(t, []any{wire.ResetBody{Seq: 2, Text: "what is missing was given up"}},
		b.controls(wire.SenderReset))
}

func TestReset_receiverDropsAbandonedMessages_LINK6(t *testing.T) {
	b := newBench(t, Config{})
	require.Equal(t, "1", b.arrive(Arrival{Seq: 1}))
	require.Equal(t, "parked", b.arrive(Arrival{Seq: 4, PrevSeq: 3}))
	require.True(t, b.core.OnSenderReset(b.peer, &wire.ResetBody{Seq: 5, Text: "enough"}))
	require.False(t, b.core.OnSenderReset(b.peer, &wire.ResetBody{Seq: 5}), "once")
	require.False(t, b.core.OnSenderReset(b.peer, &wire.ResetBody{Seq: 4}))
	require.Equal(t, "duplicate", b.arrive(Arrival{Seq: 3, PrevSeq: 1}))
	require.Equal(t, "refused", b.arrive(Arrival{Seq: 6, PrevSeq: 5}))
	require.Equal(t, "refused", b.arrive(Arrival{Seq: 6, AllAcked: true}))
	b.core.OnProbe(b.now, b.peer, 5, 1)
	require.Len(t, b.controls(wire.ReceiverReset), 3, "each further packet gets a reset")
	require.Equal(t, "7", b.arrive(Arrival{Seq: 7}))
	require.Equal(t, 1, b.core.openSenders)
}

func TestReset_silenceEndsTheLinkAtBothEnds_LINK13(t *testing.T) {
	b := newBench(t, Config{SilenceTimeout: 10 * time.Second, DefaultDeadline: time.Hour})
	b.post("sent")
	b.leave()
	b.after(9 * time.Second)
	require.Empty(t, b.fates())
	b.core.OnDisconnect()
	b.after(time.Minute)
	require.Empty(t, b.fates(), "no peer can be heard")
	b.core.OnReconnect(b.now, testLimit)
	b.after(11 * time.Second)
	require.Equal(t, []string{"sent unknown"}, b.fates())

	b.arrive(Arrival{Seq: 3, PrevSeq: 2})
	b.after(11 * time.Second)
	broken := 0
	for _, e := range b.effects() {
		if e.Kind == EffectBroken {
			broken++
		}
	}
	require.Equal(t, 1, broken)
	require.Empty(t, b.peer.in.outOfOrder)
	require.Zero(t, b.core.Due())
}

func TestReset_noRespondersHintNeedsAGracePeriod_LINK13(t *testing.T) {
	b := newBench(t, Config{})
	b.post("sent")
	b.leave()
	for range 50 {
		b.core.OnHint(b.now, b.peer, 1)
	}
	b.after(100 * time.Millisecond)
	require.NotEmpty(t, b.leave(), "it is asked more often")
	require.NoError(t, b.core.OnHead(b.now, b.peer, nil))
	b.after(time.Second)
	b.core.OnHint(b.now, b.peer, 0)
	require.Empty(t, b.fates(), "it was there meanwhile")
	b.after(4 * time.Second)
	b.core.OnHint(b.now, b.peer, 0)
	require.Empty(t, b.fates(), "a known peer may be reconnecting")
	b.core.OnGoodbye(b.now, b.peer)
	b.core.OnHint(b.now, b.peer, 0)
	require.Equal(t, []string{"sent never"}, b.fates())
}

func TestReset_closedSenderIsNotAFailure_LINK6(t *testing.T) {
	for _, c := range []struct {
		gone wire.ResetBody
		why  Reason
	}{
		{wire.ResetBody{Seq: 5, Text: "good night", Closed: true}, PeerClosed},
		{wire.ResetBody{Seq: 5, Text: wire.ClosedText}, PeerClosed}, // of a peer that knows no other way
		{wire.ResetBody{Seq: 5, Text: "enough"}, LinkReset},
	} {
		b := newBench(t, Config{})
		b.arrive(Arrival{Seq: 1})
		require.True(t, b.core.OnSenderReset(b.peer, &c.gone),
			"its Bye travels on the other lane, and may come later")
		effects := b.effects()
		why, is := errors.AsType[*Error](effects[len(effects)-1].Err)
		require.True(t, is)
		require.Equal(t, c.why, why.Reason, c.gone)
	}
}

func TestReset_closingPeerSaysGoodbye_LINK6(t *testing.T) {
	b := newBench(t, Config{})
	b.post("sent")
	b.leave()
	b.core.Close(errClosed)
	require.Equal(t, []any{wire.ResetBody{Seq: 1, Text: wire.ClosedText, Closed: true}},
		b.controls(wire.SenderReset))
}

func TestPeers_longestSilentPeerIsEvicted_LINK11(t *testing.T) {
	b := newBench(t, Config{MaxPeers: 2})
	b.post("sent")
	b.leave()
	b.arrive(Arrival{Seq: 1})
	ids := processIDs(t, 5)
	b.core.Peer(ids[1])
	b.core.Peer(ids[0])
	b.core.Peer(ids[2])
	require.Nil(t, b.core.Lookup(ids[1]))
	require.Same(t, b.peer, b.core.Lookup(ids[0]))
	b.core.Peer(ids[3])
	b.core.Peer(ids[4])
	require.Equal(t, []string{"sent unknown"}, b.fates())
	require.ErrorIs(t, b.send(wire.Envelope{Body: []byte("x")}), ErrEvicted)
	require.Equal(t, "dropped", b.arrive(Arrival{Seq: 2, PrevSeq: 1}))
	require.Zero(t, b.core.openSenders)

	b.peer = b.core.Peer(ids[0])
	b.core.OnProbe(b.now, b.peer, 2, 1)
	require.Len(t, b.controls(wire.ReceiverReset), 1, "its next packet gets a reset")
}

func TestMarkDead_isPermanent(t *testing.T) {
	b := newBench(t, Config{})
	require.NoError(t, b.core.Dead(b.peer))
	why := errors.New("its host says so")
	b.core.MarkDead(b.now, b.peer, why)
	b.core.MarkDead(b.now, b.peer, errors.New("again"))
	require.Equal(t, why, b.core.Dead(b.peer))
	require.ErrorIs(t, b.send(wire.Envelope{Body: []byte("x")}), why)
	require.Equal(t, "dropped", b.arrive(Arrival{Seq: 1}))
	require.Nil(t, b.core.Fragment(b.peer, 1, wire.FragmentHead{Total: 1}, []byte("x")))
	require.False(t, b.core.OnSenderReset(b.peer, &wire.ResetBody{Seq: 9}))
	b.core.OnProbe(b.now, b.peer, 1, 0)
	b.core.OnQuery(b.now, b.peer, &wire.FateQueryBody{Seq: 1, Indexes: []int{0, 1}})
	require.Empty(t, b.effects())
}
