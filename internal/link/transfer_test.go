package link

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
)

func (b *bench) postTo(actor, sender, body string) {
	b.t.Helper()
	e := wire.Envelope{Kind: wire.Message, Sender: sender, Body: []byte(body)}
	require.NoError(b.t, b.core.Send(b.now, b.target(b.peer, actor), &e, Mark{Type: body[:1]}, 0))
}

// firstLetters are the first letters of the packets that leave now.
func (b *bench) firstLetters() (letters string) {
	for _, s := range b.leave() {
		for _, body := range s.bodies {
			letters += body[len(body)-1:]
		}
	}
	return letters
}

func TestChunks_largeMessageLetsOthersPass_LINK9(t *testing.T) {
	b := newBench(t, Config{PacketSize: 10, ChunkSize: 100, ChunksInFlight: 2})
	b.postTo("a", "s", strings.Repeat("L", 350))
	b.postTo("a", "s", "follows 1")
	b.postTo("a", "other", "passes 2")
	b.postTo("b", "s", "passes 3")
	require.Equal(t, "2L3L", b.firstLetters(), "its parts take turns with packets")
	b.ack(2)
	require.Equal(t, "L", b.firstLetters())
	b.ack(5)
	require.Equal(t, "L1", b.firstLetters(), "and its successor comes behind its last part")
	require.Zero(t, b.core.queuedBytes)
}

func TestChunks_largeMessageKeepsItsPlace_LINK9(t *testing.T) {
	b := newBench(t, Config{PacketSize: 10, ChunkSize: 100, InitialWindow: 1})
	for _, m := range []string{"1", "2", "3", "4"} {
		b.postTo("a", "s", m+strings.Repeat(" ", 20)+m)
	}
	b.postTo("a", "s", strings.Repeat("L", 150))
	var all string
	for n := uint64(1); b.peer.out.queuedBytes > 0; n++ {
		all += b.firstLetters()
		b.ack(n)
	}
	require.Equal(t, "1L234L", all+b.firstLetters())
}

func TestChunks_expiredLargeMessageIsAbandoned_LINK9(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, ChunksInFlight: 1, DefaultDeadline: time.Second})
	b.postTo("a", "s", strings.Repeat("L", 350))
	b.postTo("a", "s", "follows")
	barrier := b.core.Barrier(b.now)
	b.leave()
	b.after(500 * time.Millisecond)
	b.postTo("a", "s", "later")
	b.after(time.Second)
	require.Equal(t, []string{"f never", "L never"}, b.fates())
	<-barrier.Done()
	var kinds []string
	for _, s := range b.leave() {
		kinds = append(kinds, strings.Join(s.bodies, ","))
	}
	require.Equal(t, []string{"", "", "", "", "later"}, kinds, "three probes, no more parts, then the later message")
	require.Zero(t, b.core.queuedBytes)
}

// The link may rest for days with nothing to send.
func TestChunks_linkKeepsNoFinishedMessage_LINK11(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, DefaultDeadline: time.Second})
	large := func() weak.Pointer[byte] {
		e := wire.Envelope{Kind: wire.Message, Sender: "s", Body: make([]byte, 350)}
		whole := encodeParts(b.to, &e, 100)
		require.NoError(t, b.core.SendWhole(b.now, b.to, &e, whole, Mark{Type: "L"}, 0, nil))
		return weak.Make(&whole.buf[0])
	}
	gone := func(messages ...weak.Pointer[byte]) {
		t.Helper()
		testkit.Until(t, "the messages are garbage", func() bool {
			runtime.GC()
			return !slices.ContainsFunc(messages, func(m weak.Pointer[byte]) bool { return m.Value() != nil })
		})
	}
	first, second := large(), large()
	n := uint64(len(b.leave()))
	b.ack(n)
	gone(first, second)
	expired := large()
	b.after(2 * time.Second)
	require.Equal(t, []string{"L never"}, b.fates())
	gone(expired)
	runtime.KeepAlive(b)
}

func TestChunks_reassembleToTheMessage_LINK9(t *testing.T) {
	const assembly = 1072 + 2*assemblyCost + 2*partCost
	b := newBench(t, Config{AssemblyBytes: assembly, MaxMessage: 800})
	part := func(id uint64, at, total, size int) (parts [][]byte, err error) {
		e := wire.Envelope{Kind: wire.Chunk, Ext: wire.ChunkHead{ID: id, Offset: at, Total: total}.Append(nil),
			Body: bytes.Repeat([]byte{byte(at)}, size)}
		return b.core.Chunk(b.peer, &e)
	}
	parts, err := part(1, 0, 30, 10)
	require.NoError(t, err)
	require.Nil(t, parts)
	_, err = part(2, 0, 20, 10)
	require.NoError(t, err)
	parts, err = part(1, 10, 30, 20)
	require.NoError(t, err)
	require.Equal(t, append(make([]byte, 10), bytes.Repeat([]byte{10}, 20)...), bytes.Join(parts, nil))
	require.Equal(t, 10+partCost+assemblyCost, b.core.assemblyBytes)

	_, err = part(2, 15, 20, 5)
	require.EqualError(t, err, "a part of 5 bytes at 15 of 20 does not follow 10 of 20")
	_, err = part(3, 0, 2000, 900)
	require.NoError(t, err)
	_, err = part(4, 0, 2000, 200)
	require.NoError(t, err, "the sender learns it with the last part")
	_, err = part(4, 1800, 2000, 200)
	require.ErrorContains(t, err, fmt.Sprintf("no memory for a message of 2000 bytes: unfinished ones have "+
		"%d, want at most %d", 900+partCost+2*assemblyCost, assembly))
	for id := range uint64(2) {
		_, err = part(5+id, 0, 20, 10)
		require.NoError(t, err, "likewise")
	}
	_, err = part(6, 10, 20, 10)
	require.ErrorContains(t, err, "too many unfinished messages: 2 of this process")
	_, err = part(5, 10, 20, 10)
	require.NoError(t, err)
	_, err = part(3, 0, 0, 0)
	require.NoError(t, err)
	require.Zero(t, b.core.assemblyBytes)
	_, err = b.core.Chunk(b.peer, &wire.Envelope{Kind: wire.Chunk, Ext: []byte{1}})
	require.Error(t, err)

	b = newBench(t, Config{})
	for id := uint64(10); id < 10+maxChunks; id++ {
		_, err = part(id, 0, 3, 1)
		require.NoError(t, err)
	}
	_, err = part(5, 0, 1, 1)
	require.ErrorContains(t, err, "too many unfinished messages: 1024 of this process")
	b.core.MarkDead(b.now, b.peer, ErrEvicted)
	require.Zero(t, b.core.assemblyBytes)
}

func TestPiece_reassemblesASplitPacket(t *testing.T) {
	b := newBench(t, Config{PacketSize: 20 << 10})
	body := strings.Repeat("x", 10<<10)
	b.post(body)
	b.core.SetLimit(6000)
	to := newBench(t, Config{})
	var parts [][]byte
	for pub, ok := b.core.Next(b.now); ok; pub, ok = b.core.Next(b.now) {
		require.LessOrEqual(t, len(pub.Data), 6000)
		h, rest, err := wire.DecodeHead(pub.Data)
		require.NoError(t, err)
		require.Equal(t, wire.Fragment, h.Kind)
		cut, part, err := wire.DecodeFragment(rest)
		require.NoError(t, err)
		require.Nil(t, to.core.Fragment(to.peer, h.Seq, wire.FragmentHead{Offset: cut.Offset + 1, Total: cut.Total},
			part), "that is not the next one")
		if parts = to.core.Fragment(to.peer, h.Seq, cut, part); parts == nil {
			require.Nil(t, to.core.Fragment(to.peer, h.Seq, cut, part), "it may come twice")
		}
	}
	h, rest, err := wire.DecodeHead(bytes.Join(parts, nil))
	require.NoError(t, err)
	require.Equal(t, wire.Head{Kind: wire.Repair, Seq: 1}, h)
	subject, packet, err := wire.DecodeRepair(rest)
	require.NoError(t, err)
	require.Equal(t, "p.a", subject)
	require.Contains(t, string(packet), body)
	require.Zero(t, to.core.fragmentBytes)

	to.core.Fragment(to.peer, 5, wire.FragmentHead{Total: 10}, []byte("half"))
	to.arrive(Arrival{Seq: 5})
	require.Zero(t, to.core.fragmentBytes, "it came whole")
	require.Nil(t, to.core.Fragment(to.peer, 5, wire.FragmentHead{Total: 1}, []byte("x")),
		"and is not wanted any more")
}

func TestBarrier_passesWhenEarlierMessagesHaveFates(t *testing.T) {
	b := newBench(t, Config{ChunkSize: 100, InitialWindow: 1})
	require.True(t, b.core.Barrier(b.now).Reached(), "there is nothing")
	b.postTo("a", "s", strings.Repeat("L", 150))
	b.postTo("a", "s", "follows")
	b.postTo("b", "s", "queued")
	first := b.core.Barrier(b.now)
	for n := uint64(1); n <= 4; n++ {
		require.False(t, first.Reached(), n)
		b.leave()
		if n == 4 {
			b.postTo("b", "s", "later")
		}
		b.ack(n)
	}
	require.True(t, first.Reached(), "later messages do not count")
	require.False(t, b.core.Barrier(b.now).Reached())
}

func TestLRU_evictsTheLeastRecentlyUsed(t *testing.T) {
	r, ids := newLRU(3), processIDs(t, 5)
	peers := []*Peer{{}, {}, {}, {}}
	for n := range 3 {
		state, _ := r.touch(ids[n])
		*state = peers[n]
	}
	r.touch(ids[0])
	state, forgotten := r.touch(ids[3])
	require.Same(t, peers[1], forgotten)
	*state = peers[3]
	require.Nil(t, r.get(ids[1]))
	var all []*Peer
	r.newest(2, func(p *Peer) { all = append(all, p) })
	require.Len(t, all, 2)
	require.Same(t, peers[3], all[0])
	require.Same(t, peers[0], all[1])
	require.Equal(t, len(r.items), r.order.Len())
}
