package link

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// ackAll acknowledges everything that was sent to some peers.
func (b *bench) ackAll(all ...*Target) {
	b.t.Helper()
	for _, to := range all {
		o := &to.Peer.out
		k := wire.AckState{Acked: o.lastSeq, ReceivedBytes: o.sentBytes, Window: 1 << 20}
		require.NoError(b.t, b.core.OnState(b.now, to.Peer, &wire.LinkStateBody{Progress: k}))
	}
}

// ways are the subjects of the packets that leave now; "" is that of a process.
func (b *bench) ways() (all []string) {
	b.t.Helper()
	for _, s := range b.leave() {
		all = append(all, s.subject)
	}
	return all
}

func TestShared_partsForMembersThatKeepPaceLeaveOnce_LINK7(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 8 << 10, InitialWindow: 1 << 20})
	all := b.others(3)
	b.cast(30<<10, all...)
	require.Equal(t, []string{"k", "k", "k", "k"}, b.ways())
	for _, to := range all {
		require.Len(t, to.Peer.out.sent, 4)
		require.Empty(t, to.Peer.out.transfers)
	}
	require.Zero(t, b.core.queuedBytes)
	b.ackAll(all...)
	prevs, _ := b.cast(10, all...)
	require.Equal(t, []uint64{AllAcked, AllAcked, AllAcked}, prevs, "and small casts have one packet again")
}

func TestShared_castBehindAnotherIsSharedToo_LINK9(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, ChunksInFlight: 1, InitialWindow: 1 << 20})
	all := b.others(3)
	b.cast(150, all...)
	b.cast(150, all...)
	for _, want := range [][]string{{"k"}, {"k", "k"}, {"k"}, nil} {
		require.Equal(t, want, b.ways())
		b.ackAll(all...)
	}
}

func TestShared_lateMemberGetsTheRestByItself_LINK7(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, ChunksInFlight: 1, InitialWindow: 1 << 20, MinRTO: 10 * time.Millisecond})
	all := b.others(3)
	b.cast(350, all...)
	require.Equal(t, []string{"k"}, b.ways())
	b.ackAll(all[:2]...)
	require.Empty(t, b.ways(), "the third member may only be a little late")
	require.NoError(t, b.core.Send(b.now, all[0],
		&wire.Envelope{Kind: wire.Message, Sender: "other", Body: []byte("passes")}, Mark{}, 0))
	require.Equal(t, []string{"p.a"}, b.ways(), "meanwhile, others leave")
	b.ackAll(all[0])
	b.after(11 * time.Millisecond)
	require.Equal(t, []string{"k"}, b.ways())
	b.ackAll(all[:2]...)
	require.Equal(t, []string{"k"}, b.ways(), "it is not awaited again")
	b.ackAll(all...)
	require.ElementsMatch(t, []string{"k", ""}, b.ways())
	for range 2 {
		b.ackAll(all...)
		require.Equal(t, []string{""}, b.ways())
	}
	b.ackAll(all...)
	require.Empty(t, b.ways())
	require.Empty(t, b.fates())
	require.Zero(t, b.core.queuedBytes)
}

func TestShared_memberWithASmallWindowIsNotAwaited_LINK7(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, ChunksInFlight: 2, InitialWindow: 1 << 20})
	all := b.others(3)
	b.cast(350, all...)
	require.Equal(t, []string{"k", "k"}, b.ways())
	o := &all[2].Peer.out
	k := wire.AckState{Acked: o.lastSeq - 1, ReceivedBytes: o.sentBytes / 2, Window: 300}
	require.NoError(t, b.core.OnState(b.now, all[2].Peer, &wire.LinkStateBody{Progress: k}))
	require.Empty(t, b.ways())
	b.ackAll(all[:2]...)
	require.Equal(t, []string{"k", "k"}, b.ways())
}

func TestShared_deadMemberIsNotAwaited_LINK7(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, ChunksInFlight: 1, InitialWindow: 1 << 20})
	all := b.others(3)
	b.cast(250, all...)
	b.ways()
	b.ackAll(all[:2]...)
	require.Empty(t, b.ways())
	b.core.MarkDead(b.now, all[2].Peer, errors.New("dead"))
	require.Equal(t, []string{"cast never"}, b.fates())
	b.ackAll(all[0])
	require.Equal(t, []string{"k"}, b.ways())
}

func TestShared_lastMemberOfACastIsAlone(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, ChunksInFlight: 1, InitialWindow: 1 << 20})
	all := b.others(2)
	b.cast(250, all...)
	b.ways()
	b.core.MarkDead(b.now, all[1].Peer, errors.New("dead"))
	b.ackAll(all[0])
	require.Equal(t, []string{""}, b.ways())
	require.Nil(t, all[0].Peer.out.transfers[0].cast)
}
