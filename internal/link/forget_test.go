package link

import (
	"errors"
	"math"
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
// converse lets a sender and a receiver exchange all that leaves, for some time, and returns the
// numbers of delivered packets.
func converse(sender, receiver *bench, d time.Duration) (delivered []string) {
	for end := sender.now + Instant(d); sender.now < end; {
		for _, s := range sender.leave() {
			if s.Kind == wire.Probe {
				receiver.core.OnProbe(receiver.now, receiver.peer, s.Seq, s.PrevSeq)
				continue
			}
			if got := receiver.arrive(Arrival{Seq: s.Seq, PrevSeq: s.PrevSeq, Size: s.size}); got[0] <= '9' {
				delivered = append(delivered, got)
			}
		}
		for _, e := range receiver.effects() {
			switch b := e.Body.(type) {
			case *wire.LinkStateBody:
				_ = sender.core.OnState(sender.now, sender.peer, b) // some say what cannot be
			case wire.ResetBody:
				sender.core.OnReceiverReset(sender.peer, &b)
			}
		}
		for _, e := range sender.effects() {
			if b, is := e.Body.(wire.ResetBody); is {
				receiver.core.OnSenderReset(receiver.peer, &b)
			}
		}
		sender.after(50 * time.Millisecond)
		receiver.after(50 * time.Millisecond)
	}
	return delivered
}

func TestReset_forgedNumbersEndTheLinkForAMomentOnly_LINK14(t *testing.T) {
	for name, forge := range map[string]func(receiver *bench){
		"resets, each higher": func(receiver *bench) {
			for _, n := range []uint64{100, 1 << 40, 1 << 62, math.MaxUint64} {
				receiver.core.OnSenderReset(receiver.peer, &wire.ResetBody{Seq: n})
			}
		},
		"the next number": func(receiver *bench) { receiver.core.OnSenderReset(receiver.peer, &wire.ResetBody{Seq: 2}) },
		"an opening":      func(receiver *bench) { receiver.arrive(Arrival{Seq: 1 << 62}) },
		"a continuation":  func(receiver *bench) { receiver.arrive(Arrival{Seq: 1 << 62, PrevSeq: 1}) },
		"behind a gap":    func(receiver *bench) { receiver.arrive(Arrival{Seq: 1 << 62, PrevSeq: 1 << 61}) },
		"a probe":         func(receiver *bench) { receiver.core.OnProbe(receiver.now, receiver.peer, 1<<62, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			sender, receiver := newBench(t, Config{}), newBench(t, Config{})
			sender.post("one")
			require.Equal(t, []string{"1"}, converse(sender, receiver, time.Second))
			forge(receiver)
			sender.post("two")
			converse(sender, receiver, 5*time.Second)
			sender.post("three")
			require.Len(t, converse(sender, receiver, time.Second), 1)
			require.Less(t, sender.core.lastSeq, uint64(1<<33), "no claim makes the numbers run out")
			require.Less(t, receiver.peer.in.lastSeq, uint64(1<<33))
			require.True(t, sender.peer.out.idle())
			require.Empty(t, receiver.peer.in.outOfOrder)
		})
	}
}

func TestReset_lateProbeEndsNoLink_LINK14(t *testing.T) {
	sender, receiver := newBench(t, Config{}), newBench(t, Config{})
	for range 3 {
		sender.post("one more")
		require.Len(t, converse(sender, receiver, time.Second), 1)
	}
	sender.post("on its way")
	receiver.core.OnProbe(receiver.now, receiver.peer, 1, 0)
	require.Len(t, converse(sender, receiver, time.Second), 1)
	require.Zero(t, sender.core.resets+receiver.core.resets)
}
