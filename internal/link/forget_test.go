package link

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// sayGoodbye takes the goodbye of a peer.
func (b *bench) sayGoodbye(p *Peer) {
	b.t.Helper()
	require.NoError(b.t, b.core.OnHead(b.now, p, nil))
	b.core.OnGoodbye(b.now, p)
}

func TestGoodbye_departedPeersLeaveNothing_LINK11(t *testing.T) {
	const clients = 1000
	b := newBench(t, Config{})
	b.post("the link of a peer that stays")
	b.leave()
	b.ack(1)
	before := heap()
	for _, to := range b.others(clients) {
		a, ok := b.core.Arrive(b.now, to.Peer, Arrival{Seq: 1})
		require.True(t, ok)
		b.core.Done(b.now, to.Peer, a, nil)
		answer := wire.Envelope{Kind: wire.Value, Sender: "s", Body: []byte("answer")}
		require.NoError(t, b.core.Send(b.now, to, &answer, Mark{}, 0))
		b.leave()
		o := &to.Peer.out
		require.NoError(t, b.core.OnHead(b.now, to.Peer, &wire.AckState{Acked: o.lastSeq, ReceivedBytes: o.sentBytes}))
		b.sayGoodbye(to.Peer)
	}
	b.effects()
	b.after(59 * time.Second)
	require.Len(t, b.core.peers.items, clients+1, "their late packets are still known as such")
	b.after(2 * time.Second)
	forgotten := 0
	for _, e := range b.effects() {
		if e.Kind == EffectForget {
			forgotten++
		}
	}
	require.Equal(t, clients, forgotten)
	require.Len(t, b.core.peers.items, 1)
	require.Same(t, b.peer, b.core.Lookup(b.peer.id))
	require.Empty(t, b.core.watching)
	require.Zero(t, b.core.openSenders)
	require.Less(t, heap()-before, int64(1<<20))
}

func TestGoodbye_lateCopiesAreDuplicates_LINK1(t *testing.T) {
	b := newBench(t, Config{})
	require.Equal(t, "1", b.arrive(Arrival{Seq: 1}))
	b.sayGoodbye(b.peer)
	b.after(50 * time.Second)
	require.Equal(t, "duplicate", b.arrive(Arrival{Seq: 1}))
	b.after(time.Hour)
	require.Same(t, b.peer, b.core.Lookup(b.peer.id), "a process that is heard from lives")
}

func TestGoodbye_firstReportOfNoSubscriberCounts_LINK13(t *testing.T) {
	b := newBench(t, Config{})
	b.sayGoodbye(b.peer)
	b.post("sent")
	b.leave()
	b.core.OnHint(b.now, b.peer, 1)
	require.Equal(t, []string{"sent never"}, b.fates())
}

func TestMarkDead_deadPeersAreForgottenAndStayDead_LINK11(t *testing.T) {
	b := newBench(t, Config{})
	why := errors.New("its host says so")
	b.core.isDead = func(id subjects.ProcessID) error {
		if id == b.peer.id {
			return why
		}
		return nil
	}
	b.core.MarkDead(b.now, b.peer, why)
	b.after(time.Minute)
	require.Nil(t, b.core.Lookup(b.peer.id))
	require.Equal(t, why, b.core.Dead(b.core.Peer(b.peer.id)))
	require.Nil(t, b.core.Lookup(b.peer.id), "a packet of a dead process makes no peer")
}

// A process can claim numbers in the name of another one, if the servers let it.
func TestReset_forgedNumbersEndTheLinkForAMomentOnly_LINK14(t *testing.T) {
	const forged = 1 << 40
	receiver := newBench(t, Config{})
	require.Equal(t, "1", receiver.arrive(Arrival{Seq: 1}))
	receiver.core.OnSenderReset(receiver.peer, &wire.ResetBody{Seq: 1 << 62})
	require.Equal(t, uint64(1), receiver.core.Stats().Malformed, "this cannot be true")
	require.Equal(t, "2", receiver.arrive(Arrival{Seq: 2, PrevSeq: 1}))
	receiver.core.OnSenderReset(receiver.peer, &wire.ResetBody{Seq: forged})
	require.Equal(t, "duplicate", receiver.arrive(Arrival{Seq: 3, PrevSeq: 2}))
	receiver.effects()
	receiver.core.OnProbe(receiver.now, receiver.peer, 3, 2)
	resets := receiver.controls(wire.ReceiverReset)
	require.Len(t, resets, 1)
	reset := resets[0].(wire.ResetBody)

	sender := newBench(t, Config{})
	for _, body := range []string{"one", "two", "three"} {
		sender.post(body)
		sender.leave()
	}
	sender.core.OnReceiverReset(sender.peer, &wire.ResetBody{Seq: 3, Last: 1 << 62})
	sender.core.OnReceiverReset(sender.peer, &reset) // it has no open link now
	sender.post("four")
	require.Equal(t, [][2]uint64{{4, 0}}, sender.links(), "no peer makes the numbers run out")
	reset.Seq = 4
	sender.core.OnReceiverReset(sender.peer, &reset)
	sender.post("five")
	require.Equal(t, [][2]uint64{{forged + 1, 0}}, sender.links())
	require.Equal(t, "1099511627777", receiver.arrive(Arrival{Seq: forged + 1}))
}
