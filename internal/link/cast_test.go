package link

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// cast sends to members, and returns the prev of each in the packet for all.
func (b *bench) cast(body int, members ...*Target) (prevs []uint64, failed map[int]error) {
	b.t.Helper()
	failed, err := b.core.Cast(b.now, &Cast{
		Subject: "k", Group: NewGroup(members),
		Envelope: &wire.Envelope{Kind: wire.Cast, Sender: "s", Body: make([]byte, body)},
		GroupExt: func(all []Run) ([]byte, error) {
			for _, r := range all {
				prevs = append(prevs, slices.Repeat([]uint64{r.Prev}, r.Count)...)
			}
			return []byte("all"), nil
		},
		AloneExt: func() ([]byte, error) { return []byte("alone"), nil },
		Mark:     Mark{Type: "cast"},
	})
	require.NoError(b.t, err)
	return prevs, failed
}

func TestCast_usesOneNumberAndEachMembersPrevious_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	others := b.others(2)
	b.post("before")
	b.leave()
	prevs, failed := b.cast(10, b.to, others[0], others[1])
	require.Empty(t, failed)
	require.Equal(t, []uint64{1, 0, 0}, prevs)
	require.Equal(t, [][2]uint64{{2, 0}}, b.links())
	b.ack(2)
	prevs, _ = b.cast(10, b.to, others[0])
	require.Equal(t, []uint64{AllAcked, 2}, prevs)
	b.links()
	b.post("after")
	require.Equal(t, [][2]uint64{{4, 3}}, b.links(), "casts and messages share one order")
}

func TestCast_repairsOnlyTheMemberThatMissedIt_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	others := b.others(2)
	b.cast(10, b.to, others[0], others[1])
	all := b.leave()[0]
	require.Equal(t, "k", all.subject)
	require.NoError(t, b.core.OnState(b.now, others[0].Peer, &wire.LinkStateBody{Missing: []uint64{0, 1}}))
	again := b.leave()
	require.Len(t, again, 1)
	require.Equal(t, wire.Head{Kind: wire.Repair, Seq: 1}, again[0].Head)
	require.Same(t, others[0].Peer, again[0].to)
	require.Greater(t, again[0].size, all.size, "it has the whole packet, and where it was published")
}

func TestCast_skipsMembersThatCannotTakeIt_LINK7(t *testing.T) {
	b := newBench(t, Config{InitialWindow: 5000})
	others := b.others(4)
	require.NoError(t, b.core.Send(b.now, others[0],
		&wire.Envelope{Kind: wire.Message, Sender: "s", Body: make([]byte, 4700)}, Mark{}, 0))
	b.leave() // it has no credit left
	require.NoError(t, b.core.Send(b.now, others[1],
		&wire.Envelope{Kind: wire.Message, Sender: "s", Body: []byte("waits")}, Mark{}, 0))
	b.core.MarkDead(b.now, others[2].Peer, errors.New("dead"))
	prevs, failed := b.cast(500, b.to, others[0], others[1], others[2], others[3])
	require.Equal(t, []uint64{0, NotIncluded, NotIncluded, NotIncluded, 0}, prevs)
	require.Len(t, failed, 1)
	require.EqualError(t, failed[3], "dead")
	left := b.leave()
	require.Len(t, left, 2, "and one waits for credit")
	require.Equal(t, "k", left[0].subject)
	require.Len(t, left[1].bodies, 2, "alone, behind the queued packets")
	require.Len(t, others[0].Peer.out.queue, 1)
}

func TestCast_oversizedCastGoesToEachMemberAlone_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	other := b.others(1)[0]
	prevs, failed := b.cast(300<<10, b.to, other)
	require.Empty(t, prevs)
	require.Empty(t, failed)
	require.Len(t, b.peer.out.transfers, 1)
	require.Len(t, other.Peer.out.transfers, 1)

	b = newBench(t, Config{})
	b.core.SetLimit(6000)
	_, err := b.core.Cast(b.now, &Cast{
		Subject: "k", Group: NewGroup([]*Target{b.to}), Envelope: &wire.Envelope{Kind: wire.Cast, Sender: "s"},
		GroupExt: func([]Run) ([]byte, error) { return make([]byte, 7000), nil },
		AloneExt: func() ([]byte, error) { return []byte("alone"), nil },
	})
	require.NoError(t, err)
	left := b.leave()
	require.Len(t, left, 1)
	require.Equal(t, "p.a", left[0].subject, "the members' ext is too large, too")
}

func TestCast_unencodableCastUsesNoNumber_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	broken := errors.New("no header")
	_, err := b.core.Cast(b.now, &Cast{
		Subject: "k", Group: NewGroup([]*Target{b.to}), Envelope: &wire.Envelope{Kind: wire.Cast},
		GroupExt: func([]Run) ([]byte, error) { return nil, broken },
	})
	require.ErrorIs(t, err, broken)
	b.core.OnDisconnect()
	failed, err := b.core.Cast(b.now, &Cast{
		Subject: "k", Group: NewGroup([]*Target{b.to}), Envelope: &wire.Envelope{Kind: wire.Cast},
		AloneExt: func() ([]byte, error) { return nil, broken },
	})
	require.NoError(t, err)
	require.ErrorIs(t, failed[0], broken)
	b.core.OnReconnect(b.now, testLimit)
	b.post("first")
	require.Equal(t, [][2]uint64{{1, 0}}, b.links())
}

func TestCast_eachMemberHasAFate_LINK7(t *testing.T) {
	b := newBench(t, Config{DefaultDeadline: time.Second})
	others := b.others(3)
	b.cast(10, b.to, others[0], others[1], others[2])
	b.leave()
	barrier := b.core.Barrier(b.now)
	b.ack(1)
	refused := []wire.Refusal{{Seq: 1, Count: 1, Why: []byte("no")}}
	require.NoError(t, b.core.OnState(b.now, others[0].Peer,
		&wire.LinkStateBody{Progress: wire.AckState{Acked: 1}, Refusals: refused}))
	b.after(1100 * time.Millisecond)
	b.core.OnVerdict(others[1].Peer, &wire.FateQueryBody{Seq: 1, Indexes: []int{0, 1}})
	require.Equal(t, []string{"cast never", "cast never"}, b.fates())
	select {
	case <-barrier.Done():
		require.Fail(t, "one member has none")
	default:
	}
	b.after(time.Second)
	require.Equal(t, []string{"cast unknown"}, b.fates())
	<-barrier.Done()
}

func TestCast_withoutASubjectGoesToEachMemberAlone_LINK7(t *testing.T) {
	b := newBench(t, Config{})
	_, err := b.core.Cast(b.now, &Cast{
		Group: NewGroup(append(b.others(2), b.to)), Envelope: &wire.Envelope{Kind: wire.Cast, Sender: "s"},
		AloneExt: func() ([]byte, error) { return []byte("alone"), nil },
	})
	require.NoError(t, err)
	require.Equal(t, [][2]uint64{{1, 0}, {2, 0}, {3, 0}}, b.links())
}

func TestCast_membersShareALargeMessage_LINK9(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, ChunksInFlight: 1})
	all := append(b.others(2), b.to)
	b.cast(250, all...)
	b.cast(251, all...)
	for _, to := range all {
		o := &to.Peer.out
		require.Len(t, o.transfers, 1)
		first := o.transfers[0]
		require.Same(t, all[0].Peer.out.transfers[0].whole, first.whole)
		require.Len(t, first.followers, 1, "a sender's messages keep their order")
		next := &first.followers[0]
		require.Same(t, all[0].Peer.out.transfers[0].followers[0].whole, next.whole)
		require.Nil(t, next.envelope.Body, "it is in the whole, and the program may write to its own")
	}
}

func TestCast_tooLargeMessageIsRefusedBeforeItIsCopied_LINK9(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, MaxMessage: 200})
	body := make([]byte, 64<<10)
	k := &Cast{Subject: "k", Group: NewGroup(b.others(3)), Envelope: &wire.Envelope{Kind: wire.Cast, Body: body},
		AloneExt: func() ([]byte, error) { return nil, nil }}
	failed, err := b.core.Cast(b.now, k)
	require.NoError(t, err)
	require.Len(t, failed, 3)
	require.ErrorContains(t, failed[0], "the message has 65536 bytes, want at most 200")
	require.Nil(t, k.whole)
}
