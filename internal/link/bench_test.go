package link

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// BenchmarkCast gives casts to 10,000 and to 100,000 links their numbers. The links are
// acknowledged in various ways. The metric is the time to number one cast; the rest of the time is
// the acknowledgements.
func BenchmarkCast(b *testing.B) {
	for name, links := range map[string]int{"10k": 10_000, "100k": 100_000} {
		b.Run(name, func(b *testing.B) { castTo(b, links) })
	}
}

func castTo(b *testing.B, links int) {
	acks := func(every int) func(*castBench, int) {
		return func(k *castBench, n int) {
			if n%every == 0 {
				k.ack()
			}
		}
	}
	b.Run("anew", func(b *testing.B) { castMany(b, links, false, acks(1)) })
	b.Run("acked-each", func(b *testing.B) { castMany(b, links, true, acks(1)) })
	b.Run("acked-in-time", func(b *testing.B) { castMany(b, links, true, acks(20)) })
	b.Run("acked-late", func(b *testing.B) { castMany(b, links, true, acks(100)) })
	b.Run("1%-strays", func(b *testing.B) {
		castMany(b, links, true, func(k *castBench, n int) {
			if n%20 == 0 {
				k.ack()
			}
			for i := 0; i < len(k.members); i += 100 {
				k.post(k.members[i])
			}
		})
	})
}

// castBench is a Core that casts to others.
type castBench struct {
	b       *testing.B
	core    *Core
	members []*Target
	now     Instant
	last    uint64 // number of a packet
}

// castMany casts, and runs a function between the casts.
func castMany(b *testing.B, links int, grouped bool, between func(k *castBench, n int)) {
	k := &castBench{b: b, core: NewCore(Config{}, testLimit), now: Instant(time.Second)}
	for i := range links {
		id, err := subjects.ParseProcessID("peers-0123456789abc_" + strconv.Itoa(i) + "-0")
		require.NoError(b, err)
		k.members = append(k.members, &Target{Peer: k.core.Peer(id), Actor: "a", Port: "p"})
	}
	m := &Cast{
		Subject: "k", Group: NewGroup(k.members),
		Envelope: &wire.Envelope{Kind: wire.Cast, Sender: "s", Body: make([]byte, 64)},
		GroupExt: func([]Run) ([]byte, error) { return nil, nil },
	}
	var stamping time.Duration
	cast := func(n int) {
		began := time.Now()
		if !grouped {
			k.core.DropGroup(m.Group)
		}
		if _, err := k.core.Cast(k.now, m); err != nil {
			b.Fatal(err)
		}
		stamping += time.Since(began)
		k.leave()
		between(k, n)
		k.now += Instant(time.Millisecond)
		k.core.Tick(k.now)
	}
	cast(0) // which opens the links
	k.ack()
	stamping = 0
	n := 0
	for b.Loop() {
		n++
		cast(n)
	}
	b.ReportMetric(float64(stamping.Nanoseconds())/1e3/float64(n), "µs/stamp")
}

func (k *castBench) leave() {
	for pub, ok := k.core.Next(k.now); ok; pub, ok = k.core.Next(k.now) {
		k.last = pub.Seq
	}
}

// ack acknowledges everything for all members.
func (k *castBench) ack() {
	for _, m := range k.members {
		said := wire.AckState{Acked: m.Peer.out.lastSeq, Window: 8 << 20}
		if m.Peer.synced != nil {
			said.Acked = m.Peer.synced.group.lastSeq
		}
		if err := k.core.OnHead(k.now, m.Peer, &said); err != nil {
			k.b.Fatal(err)
		}
	}
}

func (k *castBench) post(to *Target) {
	if err := k.core.Send(k.now, to, &wire.Envelope{Kind: wire.Message, Sender: "s", Body: []byte("between")},
		Mark{}, 0); err != nil {
		k.b.Fatal(err)
	}
	k.leave()
}

// BenchmarkSendNext carries messages of 64 B from one Core to another, as many to a packet as fit,
// and the acknowledgements back.
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
			if a, ok := to.core.Arrive(now, to.peer, Arrival{Seq: h.Seq, PrevSeq: h.PrevSeq, Size: len(rest)}); ok {
				to.core.Done(now, to.peer, a, nil)
			}
		}
		to.core.Tick(now)
		effects = to.core.Effects(effects[:0])
		for _, s := range effects {
			if err := from.core.OnState(now, from.peer, s.Body.(*wire.LinkStateBody)); err != nil {
				b.Fatal(err)
			}
		}
		from.core.Tick(now)
	}
}
