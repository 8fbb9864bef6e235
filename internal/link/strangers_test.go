package link

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// heap is the memory in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A program with the right to publish can use many names.
func TestStrangers_shareOneMemoryBound_LINK11(t *testing.T) {
	const strangers, each, most = 1000, 200, 1 << 20
	b := newBench(t, Config{AssemblyBytes: most, MaxOutOfOrderTotal: most})
	all := b.others(strangers)
	before := heap()
	for _, to := range all {
		p := to.Peer
		_, ok := b.core.Arrive(b.now, p, Arrival{Seq: 1})
		require.True(t, ok)
		for i := range uint64(each) {
			_, err := b.core.Chunk(p, &wire.Envelope{Kind: wire.Chunk,
				Ext: wire.ChunkHead{ID: i, Total: 1000}.Append(nil), Body: []byte{1}})
			require.NoError(t, err)
			_, ok = b.core.Arrive(b.now, p,
				Arrival{Seq: 2*i + 5, PrevSeq: 2*i + 4, Size: 1000, Packet: make([]byte, 1000)})
			require.False(t, ok)
			b.core.OnQuery(b.now, p, &wire.FateQueryBody{Seq: 1<<40 + i, Indexes: make([]int, 200)})
			b.effects()
		}
	}
	require.LessOrEqual(t, b.core.assemblyBytes, most)
	require.LessOrEqual(t, b.core.outOfOrderBytes, most)
	require.LessOrEqual(t, b.core.tombstones, maxTombstones+100)
	perStranger := (heap() - before) / strangers
	require.Less(t, perStranger, int64(16<<10), "a peer, and a share of the common memory")

	b.post("the links of others are as they were")
	require.Len(t, b.leave(), 1)
	_, ok := b.core.Arrive(b.now, b.peer, Arrival{Seq: 1})
	require.True(t, ok)

	b.now += Instant(2 * time.Minute) // they say no more
	b.core.Tick(b.now)
	require.Zero(t, b.core.assemblyBytes+b.core.outOfOrderBytes)
	for _, to := range all {
		b.core.evict(to.Peer, LinkReset, "")
	}
	require.Zero(t, b.core.tombstones)
}
