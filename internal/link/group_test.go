package link

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// castTo casts to a group, and returns the prevs of its members, run by run.
func (b *bench) castTo(g *Group, body int, until Instant) (prevs []Run) {
	b.t.Helper()
	failed, err := b.core.Cast(b.now, &Cast{
		Subject: "k", Group: g, Until: until,
		Envelope: &wire.Envelope{Kind: wire.Cast, Sender: "s", Body: make([]byte, body)},
		GroupExt: func(all []Run) ([]byte, error) {
			prevs = append(prevs, all...)
			return []byte("all"), nil
		},
		AloneExt: func() ([]byte, error) { return []byte("alone"), nil },
		Mark:     Mark{Type: "cast"},
	})
	require.NoError(b.t, err)
	require.Empty(b.t, failed)
	return prevs
}

// state is a State of a peer.
func (b *bench) state(p *Peer, s wire.LinkStateBody) error { return b.core.OnState(b.now, p, &s) }

func TestGroup_castIsConstantTimeForSyncedMembers_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	g := NewGroup(b.others(200))
	require.Equal(t, []Run{{200, 0}}, b.castTo(g, 10, 0))
	for n := uint64(1); n < 10; n++ {
		require.Equal(t, []Run{{200, n}}, b.castTo(g, 10, 0), "one number for all")
		require.Empty(t, b.core.castPlan)
		require.Len(t, g.deferred, int(n), "and the work is done once")
	}
	require.Len(t, b.leave(), 10)
	require.EqualValues(t, 2000, b.core.Stats().Sent)
}

func TestGroup_laggingMemberIsAddressedSeparately_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	all := b.others(5)
	g := NewGroup(all)
	b.castTo(g, 10, 0)
	require.NoError(t, b.core.Send(b.now, all[1],
		&wire.Envelope{Kind: wire.Message, Sender: "s", Body: []byte("between")}, Mark{}, 0))
	require.Equal(t, []Run{{1, 1}, {1, NotIncluded}, {3, 1}}, b.castTo(g, 10, 0), "for it something is queued")
	left := b.leave()
	require.Len(t, left, 3)
	require.Equal(t, []uint64{1, 2, 3}, []uint64{left[0].Seq, left[1].Seq, left[2].Seq})
	require.EqualValues(t, 1, left[2].PrevSeq, "its own order is kept")
	require.Len(t, left[2].bodies, 2)
	require.Equal(t, []Run{{1, 2}, {1, 3}, {3, 2}}, b.castTo(g, 10, 0))
	require.Equal(t, []Run{{5, 4}}, b.castTo(g, 10, 0), "all are in step again")
	b.castTo(NewGroup(all[3:4]), 10, 0)
	require.Equal(t, []Run{{3, 5}, {1, 6}, {1, 5}}, b.castTo(g, 10, 0),
		"in step with one group is out of step with others")
	b.core.MarkDead(b.now, all[2].Peer, errors.New("dead"))
	b.core.resetOutgoing(all[4].Peer, LinkReset, "broken")
	require.NoError(t, b.state(all[0].Peer,
		wire.LinkStateBody{Progress: wire.AckState{Acked: 7, Window: 1 << 20}}))
	_, err := b.core.Cast(b.now, &Cast{
		Subject: "k", Group: g, Envelope: &wire.Envelope{Kind: wire.Cast},
		GroupExt: func(all []Run) ([]byte, error) {
			require.Equal(t, []Run{{2, 7}, {1, NotIncluded}, {1, 7}, {1, 0}}, all)
			return nil, nil
		},
		AloneExt: func() ([]byte, error) { return nil, errors.New("it is dead") },
	})
	require.NoError(t, err)
}

func TestGroup_deferredCastsApplyBeforeAnAcknowledgement_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	all := b.others(6)
	g := NewGroup(all)
	for range 4 {
		b.castTo(g, 10, 0)
	}
	b.leave()
	b.now += Instant(10 * time.Millisecond)
	o := &all[0].Peer.out
	require.Len(t, o.sent, 1)
	require.NoError(t, b.core.OnHead(b.now, all[0].Peer,
		&wire.AckState{Acked: 3, ReceivedBytes: o.sentBytes * 3, Window: 1 << 20}))
	require.Len(t, o.sent, 1, "the last one without an acknowledgement")
	require.Equal(t, []uint64{4, 3, 3}, []uint64{o.sent[0].seq, o.sent[0].prev, o.acked})
	require.Equal(t, 10*time.Millisecond, o.srtt)
	require.Equal(t, o.sentBytes, o.receivedBytes/3*4)

	require.NoError(t, b.state(all[1].Peer,
		wire.LinkStateBody{Progress: wire.AckState{Acked: 1}, Missing: []uint64{1, 4}}))
	require.Equal(t, [][2]uint64{{2, 1}, {3, 2}, {4, 3}}, b.links(), "it is sent again")

	refused := []wire.Refusal{{Seq: 2, Count: 1, Why: []byte("no")}}
	require.NoError(t, b.state(all[2].Peer,
		wire.LinkStateBody{Progress: wire.AckState{Acked: 4}, Refusals: refused}))
	require.Equal(t, []string{"cast never"}, b.fates())

	b.core.OnVerdict(all[3].Peer, &wire.FateQueryBody{Seq: 4, Indexes: []int{0, 1}})
	require.Equal(t, []string{"cast never"}, b.fates())

	b.core.OnReceiverReset(all[4].Peer, &wire.ResetBody{Seq: 4, Text: "no"})
	require.Equal(t, []string{"cast unknown", "cast unknown", "cast unknown", "cast unknown"}, b.fates())

	b.core.OnResume(b.now, all[5].Peer)
	require.Len(t, all[5].Peer.out.sent, 4)
	require.Equal(t, wire.Probe, b.leave()[0].Kind)
	require.Equal(t, 5, g.synced)
	require.Empty(t, g.deferred, "no member still needs them")
}

func TestGroup_refusesImpossibleAcknowledgements_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	all := b.others(2)
	g := NewGroup(all)
	for range 3 {
		b.castTo(g, 10, 0)
	}
	b.leave()
	require.Error(t, b.core.OnHead(b.now, all[0].Peer, &wire.AckState{Acked: 9}))
	require.Error(t, b.core.OnHead(b.now, all[1].Peer, &wire.AckState{Acked: 3, ReceivedBytes: 1 << 40}))
	for _, to := range all {
		require.NoError(t, b.state(to.Peer, wire.LinkStateBody{Missing: []uint64{0, 3}}))
		require.Equal(t, [][2]uint64{{1, 0}, {2, 1}, {3, 2}}, b.links())
	}
}

func TestGroup_unacknowledgedCastIsProbed_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	g := NewGroup(b.others(3))
	b.castTo(g, 10, 0)
	b.castTo(g, 10, 0)
	b.leave()
	b.after(210 * time.Millisecond) // FirstRTO
	beats := b.leave()
	require.Len(t, beats, 3)
	for _, s := range beats {
		require.Equal(t, wire.Head{Kind: wire.Probe, Seq: 2}, s.Head)
	}
	barrier := b.core.Barrier(b.now)
	b.castTo(g, 10, 0)
	b.castTo(g, 10, 0)
	later := b.core.Barrier(b.now)
	b.after(31 * time.Second)
	require.Len(t, b.fates(), 12)
	<-barrier.Done()
	<-later.Done()
}

func TestGroup_shortDeadlineIsKept_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	g := NewGroup(b.others(2))
	b.castTo(g, 10, 0)
	b.castTo(g, 10, b.now+Instant(5*time.Millisecond))
	b.leave()
	b.after(6 * time.Millisecond)
	require.Len(t, b.controls(wire.FateQuery), 2)
	b.after(500 * time.Millisecond)
	require.Equal(t, []string{"cast unknown", "cast unknown"}, b.fates())
}

func TestGroup_syncedMembersNeverExceedTheirWindow_LINK7(t *testing.T) {
	b := newBench(t, Config{InitialWindow: 20_000})
	all := b.others(3)
	g := NewGroup(all)
	b.castTo(g, 10, 0)
	require.NoError(t, b.state(all[0].Peer,
		wire.LinkStateBody{Progress: wire.AckState{Acked: 1, Window: 1 << 20}}))
	last := []Run{{3, NotIncluded}}
	for range 100 {
		last = b.castTo(g, 1000, 0)
		for _, to := range all {
			require.LessOrEqual(t, to.Peer.used()-to.Peer.out.receivedBytes, to.Peer.out.window)
		}
	}
	require.Equal(t, []Run{{1, b.core.lastSeq - 1}, {2, NotIncluded}}, last,
		"one has room, and does not wait for the others")
	require.NotEmpty(t, all[1].Peer.out.queue)
	require.Equal(t, 1, g.synced)
	b.castTo(g, 9000, 0)
	require.Equal(t, 1, g.synced, "also for casts beyond the reserved room")
	require.Less(t, len(g.deferred), 10, "and little is noted")
}

func TestGroup_shrunkWindowMakesAMemberLag_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	all := b.others(2)
	g := NewGroup(all)
	b.castTo(g, 10, 0)
	require.NoError(t, b.state(all[1].Peer, wire.LinkStateBody{Progress: wire.AckState{Acked: 1, Window: 1000}}))
	require.Equal(t, 1, g.synced)
	require.NoError(t, b.state(all[1].Peer,
		wire.LinkStateBody{Progress: wire.AckState{Acked: 1, Window: 1 << 20}}))
	b.castTo(g, 10, 0)
	require.Equal(t, 2, g.synced)
}

func TestGroup_reconnectProbesAllMembers_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	g := NewGroup(b.others(3))
	b.castTo(g, 10, 0)
	b.castTo(g, 10, 0)
	b.core.OnDisconnect()
	require.Equal(t, []Run(nil), b.castTo(g, 10, 0), "to each alone, later")
	b.core.OnReconnect(b.now, testLimit)
	left := b.leave()
	require.Len(t, left, 6, "a probe each, and the queued packets")
	require.EqualValues(t, 2, left[0].Seq)

	b.castTo(g, 10, 0)
	b.castTo(g, 10, 0)
	b.effects()
	b.core.Close(errClosed)
	require.Len(t, b.fates(), 15)
	require.Zero(t, g.synced)
}

func TestGroup_droppedGroupKeepsNoDeferredCasts_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	all := b.others(3)
	g := NewGroup(all)
	for range 5 {
		b.castTo(g, 10, 0)
	}
	b.core.DropGroup(g)
	require.Empty(t, g.deferred)
	for _, to := range all {
		require.Len(t, to.Peer.out.sent, 5)
		require.Nil(t, to.Peer.synced)
	}
	b.after(30 * time.Millisecond)
	require.Empty(t, b.core.groups)
	require.Equal(t, []Run{{3, 5}}, b.castTo(g, 10, 0))
}

func TestGroup_oversizedCastGoesToEachMemberAlone_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	all := b.others(3)
	g := NewGroup(all)
	b.castTo(g, 10, 0)
	b.castTo(g, 10, 0)
	require.Nil(t, b.castTo(g, 300<<10, 0))
	for _, to := range all {
		require.Len(t, to.Peer.out.transfers, 1)
	}
	b.leave()

	b = newBench(t, Config{})
	g = NewGroup(b.others(2))
	b.castTo(g, 10, 0)
	b.leave()
	b.core.SetLimit(6000)
	_, err := b.core.Cast(b.now, &Cast{
		Subject: "k", Group: g, Envelope: &wire.Envelope{Kind: wire.Cast},
		GroupExt: func([]Run) ([]byte, error) { return make([]byte, 7000), nil },
		AloneExt: func() ([]byte, error) { return nil, nil },
	})
	require.NoError(t, err)
	require.Equal(t, [][2]uint64{{2, 1}, {3, 1}}, b.links())
}

func TestGroup_castToAForgottenMemberIsAnError_LINK7(t *testing.T) {
	b := newBench(t, Config{MaxPeers: 3})
	all := b.others(3) // the first makes room for the last one's sake: b.peer is gone
	g := NewGroup(all)
	b.castTo(g, 10, 0)
	b.castTo(g, 10, 0)
	b.leave()
	b.core.Peer(processIDs(t, 5)[4])
	require.Equal(t, []string{"cast unknown", "cast unknown"}, b.fates())
	failed, err := b.core.Cast(b.now, &Cast{
		Subject: "k", Group: g, Envelope: &wire.Envelope{Kind: wire.Cast},
		GroupExt: func(all []Run) ([]byte, error) {
			require.Equal(t, []Run{{1, NotIncluded}, {2, 2}}, all)
			return nil, nil
		},
		AloneExt: func() ([]byte, error) { return nil, nil },
	})
	require.NoError(t, err)
	require.Len(t, failed, 1)
	require.ErrorIs(t, failed[0], ErrEvicted)
}
