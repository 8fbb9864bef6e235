package link

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// BenchmarkCast10k stamps a cast for 10,000 links whose members acknowledge it.
func BenchmarkCast10k(b *testing.B) {
	const members = 10_000
	c := NewCore(Config{}, testLimit)
	k := &Cast{
		Subject: "k", Envelope: &wire.Envelope{Kind: wire.Cast, Sender: "s", Body: make([]byte, 64)},
		Head: func([]uint64) ([]byte, error) { return nil, nil },
	}
	for i := range members {
		id, err := subjects.ParseProcessID("peers-0123456789abc_" + strconv.Itoa(i) + "-0")
		require.NoError(b, err)
		k.Members = append(k.Members, &Target{Peer: c.Peer(id), Actor: "a", Port: "p"})
	}
	now := Instant(time.Second)
	var stamping time.Duration // the rest is the members' acknowledgements
	for b.Loop() {
		began := time.Now()
		if _, err := c.Cast(now, k); err != nil {
			b.Fatal(err)
		}
		stamping += time.Since(began)
		pub, _ := c.Next(now)
		for _, m := range k.Members {
			o := &m.Peer.out
			if err := c.OnHead(now, m.Peer, &wire.Progress{Acked: pub.N, Taken: o.used, Window: 8 << 20}); err != nil {
				b.Fatal(err)
			}
		}
		now += Instant(time.Millisecond)
		c.Tick(now)
	}
	b.ReportMetric(float64(stamping.Microseconds())/float64(b.N), "µs/stamp")
}

// BenchmarkSendNext carries messages of 64 B from one Core to another, as many to a packet as fit, and
// the acknowledgements back.
func BenchmarkSendNext(b *testing.B) {
	const batch = 100
	from, to := newBench(b, Config{}), newBench(b, Config{})
	e := wire.Envelope{Kind: wire.Message, Sender: "s", Body: make([]byte, 64)}
	var effects []Effect
	now := Instant(time.Second)
	b.SetBytes(64)
	for n := 0; b.Loop(); n++ {
		if err := from.core.Send(now, from.to, &e, Mark{Type: "m"}, 0); err != nil {
			b.Fatal(err)
		}
		if n%batch != batch-1 {
			continue
		}
		now += Instant(10 * time.Microsecond)
		for pub, ok := from.core.Next(now); ok; pub, ok = from.core.Next(now) {
			h, rest, err := wire.DecodeHead(pub.Data)
			if err != nil {
				b.Fatal(err)
			}
			if a, ok := to.core.Arrive(now, to.peer, Arrival{N: h.N, Prev: h.Prev, Size: len(rest)}); ok {
				to.core.Done(now, to.peer, a, nil)
			}
		}
		to.core.Tick(now)
		effects = to.core.Effects(effects[:0])
		for _, s := range effects {
			if err := from.core.OnState(now, from.peer, s.Body.(*wire.StateOf)); err != nil {
				b.Fatal(err)
			}
		}
		from.core.Tick(now)
	}
}
