package link_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
)

// TestReassembly_keepsPacketOrderAndRefusesMessagesSeparately_LINK1: any number of messages is
// handed on together, with a different one at any place.
func TestReassembly_keepsPacketOrderAndRefusesMessagesSeparately_LINK1(t *testing.T) {
	const n = 1000
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	a.refuses = func(l letter) []byte {
		if l.body[len(l.body)-1] == '7' {
			return []byte("no")
		}
		return nil
	}
	data := wire.AppendHead(nil, wire.Head{Kind: wire.Data, Seq: 1})
	var want []string
	var refused []wire.Refusal
	for i := range n {
		e := say(fmt.Sprint(i))
		e.Actor, e.Port = "x", "in"
		if i%300 == 299 {
			e.TTL = time.Minute
		}
		if i%10 == 7 {
			refused = append(refused, wire.Refusal{Seq: 1, Index: i, Count: 1, Why: []byte("no")})
		} else {
			want = append(want, fmt.Sprint(i))
		}
		data = e.Append(data, i > 0 && i%400 != 0)
	}
	r.publishTo(t, a, data)
	got := a.await(t, len(want))
	require.Equal(t, want, bodies(got))
	for _, l := range got {
		require.Equal(t, l.body == "299" || l.body == "599" || l.body == "899", l.ttl > 0, l.body)
	}
	require.Equal(t, refused, r.awaitControl(t, wire.LinkState).(*wire.LinkStateBody).Refusals)
}

func TestReassembly_aSmallPartKeepsNoPacketOfOthers_LINK11(t *testing.T) {
	const packets, filler, most = 64, 512 << 10, 8 << 20
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{Window: 2 * packets * filler, WindowAll: 2 * packets * filler}),
		newRaw(t, srv, "raw")
	arrived := make(chan int, packets)
	a.refuses = func(l letter) []byte {
		arrived <- len(l.body)
		return []byte("no")
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range uint64(packets) {
		part := wire.Envelope{Kind: wire.Chunk, Actor: "x", Port: "in", Sender: "s", Body: []byte{1},
			Ext: wire.ChunkHead{ID: i, Total: 1000}.Append(nil)}
		other := say(string(make([]byte, filler)))
		other.Actor, other.Port = "x", "in"
		data := wire.AppendHead(nil, wire.Head{Kind: wire.Data, Seq: i + 1, PrevSeq: i})
		r.publishTo(t, a, other.Append(part.Append(data, false), false))
		require.Equal(t, filler, testkit.Next(t, arrived))
	}
	testkit.Until(t, "the packets are garbage", func() bool { return heap()-before < most })
	runtime.KeepAlive(a)
}
