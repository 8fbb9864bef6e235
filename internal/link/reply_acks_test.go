package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// ask casts to a group a message with an answer of each member.
func (b *bench) ask(g *Group) *Cast {
	b.t.Helper()
	k := &Cast{
		Subject: "k", Group: g, ReplyAcks: true,
		Envelope: &wire.Envelope{Kind: wire.Cast, Sender: "s", Body: make([]byte, 10)},
		GroupExt: func([]Run) ([]byte, error) { return []byte("all"), nil },
		AloneExt: func() ([]byte, error) { return []byte("alone"), nil },
		Mark:     Mark{Type: "cast"},
	}
	failed, err := b.core.Cast(b.now, k)
	require.NoError(b.t, err)
	require.Empty(b.t, failed)
	b.leave()
	return k
}

// probedPeers are the peers with a probe.
func (b *bench) probedPeers() (all []*Peer) {
	b.t.Helper()
	for _, s := range b.leave() {
		if s.Kind == wire.Probe {
			all = append(all, s.to)
		}
	}
	return all
}

func TestReplyAcks_onlySilentMembersAreProbed_LINK16(t *testing.T) {
	b := newBench(t, Config{})
	all := b.others(3)
	k := b.ask(NewGroup(all))
	require.EqualValues(t, 1, k.Seq)
	b.core.ReplyReceived(b.now, all[0].Peer, k.Seq)
	b.core.ReplyReceived(b.now, all[2].Peer, k.Seq)
	b.after(200 * time.Millisecond)
	require.Empty(t, b.probedPeers(), "an answer may take longer than an acknowledgement")
	b.after(time.Second)
	require.Subset(t, []*Peer{all[1].Peer}, b.probedPeers())
	require.Positive(t, b.core.Stats().Beats)
	b.after(time.Minute)
	require.Equal(t, []string{"cast unknown"}, b.fates(), "the answers acknowledge it for two")
}

func TestReplyAcks_messageAfterACastIsProbedNormally_LINK16(t *testing.T) {
	b := newBench(t, Config{})
	b.ask(NewGroup([]*Target{b.to}))
	b.post("behind")
	b.leave()
	b.after(b.core.cfg.FirstRTO)
	require.NotEmpty(t, b.probedPeers())
}

func TestReplyAcks_replyDoesNotAcknowledgeEarlierMessages_LINK16(t *testing.T) {
	b := newBench(t, Config{})
	b.post("before")
	k := b.ask(NewGroup([]*Target{b.to}))
	b.core.ReplyReceived(b.now, b.peer, k.Seq)
	require.NoError(t, b.state(b.peer, wire.LinkStateBody{
		Progress: wire.AckState{Acked: k.Seq, ReceivedBytes: b.peer.out.sentBytes}, FirstRefusal: 1,
		Refusals: []wire.Refusal{{Seq: 1, Count: 1, Why: []byte("full")}},
	}))
	require.Equal(t, []string{"before never"}, b.fates())
}

func TestReplyAcks_replyGrantsNoCredit_LINK16(t *testing.T) {
	b := newBench(t, Config{})
	k := b.ask(NewGroup([]*Target{b.to}))
	used := b.peer.out.sentBytes
	b.core.ReplyReceived(b.now, b.peer, k.Seq)
	require.Equal(t, used, b.peer.out.sentBytes-b.peer.out.receivedBytes, "it gives no credit")
	require.NoError(t, b.core.OnState(b.now, b.peer, &wire.LinkStateBody{Missing: []uint64{0, 1}}))
	require.Equal(t, [][2]uint64{{1, 0}}, b.links(), "after a false acknowledgement the packet is sent again")
}

func TestReplyAcks_senderWithoutCreditStillProbes_LINK16(t *testing.T) {
	b := newBench(t, Config{InitialWindow: 700})
	k := b.ask(NewGroup([]*Target{b.to}))
	b.core.ReplyReceived(b.now, b.peer, k.Seq)
	b.post(string(make([]byte, 500)))
	left := b.leave()
	require.Len(t, left, 1)
	require.Equal(t, wire.Probe, left[0].Kind)
	b.core.ReplyReceived(b.now, b.peer, k.Seq)
	b.after(time.Second)
	require.NotEmpty(t, b.probedPeers(), "and again until the receiver acknowledges")
	b.ack(1)
	require.Equal(t, [][2]uint64{{2, 1}}, b.links())
}

func TestReplyAcks_promptReplyReplacesTheAcknowledgement_LINK16(t *testing.T) {
	b := newBench(t, Config{})
	require.Equal(t, "7", b.arrive(Arrival{Seq: 7, ReplyAcks: true}))
	require.Equal(t, "9", b.arrive(Arrival{Seq: 9, PrevSeq: 7, ReplyAcks: true}))
	b.after(b.core.cfg.AckDelay)
	b.core.ReplySent(b.peer, 9)
	b.core.ReplySent(b.peer, 7)
	b.after(time.Minute)
	require.Empty(t, b.controls(wire.LinkState))
	b.core.OnProbe(b.now, b.peer, 9, 0)
	said := b.controls(wire.LinkState)
	require.Len(t, said, 1, "but when it is asked")
	require.EqualValues(t, 9, said[0].(*wire.LinkStateBody).Progress.Acked)
}

func TestReplyAcks_lateReplyIsPrecededByAnAcknowledgement_LINK16(t *testing.T) {
	b := newBench(t, Config{})
	require.Equal(t, "7", b.arrive(Arrival{Seq: 7, ReplyAcks: true}))
	require.Equal(t, "9", b.arrive(Arrival{Seq: 9, PrevSeq: 7, ReplyAcks: true}))
	b.core.ReplySent(b.peer, 9)
	b.after(b.core.cfg.ReplyAckDelay)
	require.Len(t, b.controls(wire.LinkState), 1, "the first has no answer yet")
}

func TestReplyAcks_otherMessagesAreAcknowledgedNormally_LINK16(t *testing.T) {
	b := newBench(t, Config{AckEvery: 4})
	require.Equal(t, "7", b.arrive(Arrival{Seq: 7, ReplyAcks: true}))
	require.Equal(t, "9", b.arrive(Arrival{Seq: 9, PrevSeq: 7}))
	b.core.ReplySent(b.peer, 7)
	b.after(b.core.cfg.AckDelay)
	require.Len(t, b.controls(wire.LinkState), 1)
	for n := uint64(10); n < 14; n++ {
		b.arrive(Arrival{Seq: n, PrevSeq: n - 1, ReplyAcks: true})
		b.core.ReplySent(b.peer, n)
	}
	require.Len(t, b.controls(wire.LinkState), 1, "and many casts in one")
	require.Empty(t, b.peer.in.pendingReplies)
}

func TestReplyAcks_replyBeforeDoneCounts_LINK16(t *testing.T) {
	b := newBench(t, Config{})
	a, ok := b.core.Arrive(b.now, b.peer, Arrival{Seq: 7, ReplyAcks: true})
	require.True(t, ok)
	b.core.ReplySent(b.peer, 7)
	b.core.Done(b.now, b.peer, a, nil)
	b.after(time.Minute)
	require.Empty(t, b.controls(wire.LinkState))
	require.Equal(t, uint64(7), b.core.piggybackAck(b.peer).Acked, "the next packet to it has the acknowledgement")
}
