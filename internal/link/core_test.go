package link

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// bench is a Core under test, with one peer and a clock.
type bench struct {
	t    testing.TB
	core *Core
	peer *Peer
	to   *Target
	now  Instant
}

const testLimit = 1 << 20

func newBench(t testing.TB, cfg Config) *bench {
	t.Helper()
	b := &bench{t: t, core: NewCore(cfg, testLimit), now: Instant(time.Second)}
	b.peer = b.core.Peer(processIDs(t, 1)[0])
	b.to = b.target(b.peer, "a")
	return b
}

func (b *bench) target(p *Peer, actor string) *Target {
	return &Target{Peer: p, Actor: actor, Port: "p", Subject: "p." + actor}
}

// others are n more peers.
func (b *bench) others(n int) (all []*Target) {
	for _, id := range processIDs(b.t, n+1)[1:] {
		all = append(all, b.target(b.core.Peer(id), "a"))
	}
	return all
}

func (b *bench) send(e wire.Envelope) error {
	if e.Kind == 0 {
		e.Kind = wire.Message
	}
	return b.core.Send(b.now, b.to, &e, Mark{Type: string(e.Body[:min(8, len(e.Body))])}, 0)
}

// post sends a message and requires its acceptance.
func (b *bench) post(body string) {
	b.t.Helper()
	require.NoError(b.t, b.send(wire.Envelope{Sender: "s", Body: []byte(body)}))
}

// sent is a packet that left.
type sent struct {
	wire.Head
	subject string
	bodies  []string
	size    int
	to      *Peer
}

// leave returns all packets that leave now.
func (b *bench) leave() (all []sent) {
	b.t.Helper()
	for pub, ok := b.core.Next(b.now); ok; pub, ok = b.core.Next(b.now) {
		h, rest, err := wire.DecodeHead(pub.Data)
		require.NoError(b.t, err)
		s := sent{Head: h, subject: pub.Subject, to: pub.To, size: len(rest)}
		if h.Kind == wire.Data {
			es := wire.NewEnvelopeReader(rest)
			var e wire.Envelope
			for _, ok := es.Next(&e); ok; _, ok = es.Next(&e) {
				s.bodies = append(s.bodies, string(e.Body))
			}
			require.NoError(b.t, es.Err())
		}
		all = append(all, s)
	}
	return all
}

// links are the n and prev of the packets that leave now.
func (b *bench) links() (all [][2]uint64) {
	b.t.Helper()
	for _, s := range b.leave() {
		if s.Kind == wire.Data || s.Kind == wire.Repair {
			all = append(all, [2]uint64{s.Seq, s.PrevSeq})
		}
	}
	return all
}

func (b *bench) effects() []Effect { return b.core.Effects(nil) }

// controls are the bodies of the control packets of a kind.
func (b *bench) controls(kind wire.PacketKind) (all []any) {
	for _, e := range b.effects() {
		if e.Kind == EffectControl && e.Packet == kind {
			all = append(all, e.Body)
		}
	}
	return all
}

// fates are the fates, as texts.
func (b *bench) fates() (all []string) {
	for _, e := range b.effects() {
		if e.Kind == EffectFate {
			word := e.Fate.Mark.Type + " unknown"
			if e.Fate.Known {
				word = e.Fate.Mark.Type + " never"
			}
			for range e.Fate.Count {
				all = append(all, word)
			}
		}
	}
	return all
}

// ack acknowledges all packets up to n.
func (b *bench) ack(n uint64) {
	b.t.Helper()
	o := &b.peer.out
	k := wire.AckState{Acked: n, ReceivedBytes: o.sentBytes, Window: 1 << 20}
	require.NoError(b.t, b.core.OnState(b.now, b.peer, &wire.LinkStateBody{Progress: k}))
}

// after advances the time, Tick by Tick.
func (b *bench) after(d time.Duration) {
	for end := b.now + Instant(d); b.now < end; {
		if b.now = end; b.core.Due() != 0 {
			b.now = min(end, max(b.core.Due(), b.now-Instant(d)))
		}
		b.core.Tick(b.now)
	}
}

func TestSend_numbersFollowThePacketOrder_LINK1(t *testing.T) {
	b := newBench(t, Config{})
	other := b.others(1)[0]
	b.post("a")
	require.NoError(t, b.core.Send(b.now, other,
		&wire.Envelope{Kind: wire.Message, Sender: "s", Body: []byte("b")}, Mark{}, 0))
	b.post("c")
	require.Error(t, b.send(wire.Envelope{Body: make([]byte, 65<<20)}))
	require.Equal(t, [][2]uint64{{1, 0}, {2, 0}}, b.links(), "messages for one process leave together")
	b.post("d")
	require.Equal(t, [][2]uint64{{3, 1}}, b.links(), "refused messages take no number")
}

func TestSend_singleMessageUsesItsOwnSubject(t *testing.T) {
	b := newBench(t, Config{})
	b.post("a")
	require.Equal(t, "p.a", b.leave()[0].subject)
	b.post("b")
	b.post("c")
	both := b.leave()[0]
	require.Empty(t, both.subject)
	require.Equal(t, []string{"b", "c"}, both.bodies)
}

func TestSend_neitherKeepsNorChangesTheEnvelope(t *testing.T) {
	b := newBench(t, Config{})
	b.post("before")
	e := wire.Envelope{Kind: wire.Message, Sender: "s", Body: []byte("mine"), TTL: time.Second}
	was := e
	b.now += Instant(time.Second)
	require.NoError(t, b.core.Send(b.now, b.to, &e, Mark{}, 0))
	was.Actor, was.Port = "a", "p"
	require.Equal(t, was, e)
	copy(e.Body, "gone")
	require.Equal(t, []string{"before", "mine"}, b.leave()[0].bodies)
}

func TestFate_eachMessageOfARunHasItsOwn_LINK3(t *testing.T) {
	b := newBench(t, Config{})
	for range 6 {
		require.NoError(t, b.core.Send(b.now, b.to,
			&wire.Envelope{Kind: wire.Message, Sender: "s", Body: []byte("x")}, Mark{Type: "x"},
			b.now+Instant(time.Minute)))
	}
	b.leave()
	require.Len(t, b.peer.out.sent[0].frame.fates, 1, "they are kept as one run")
	refused := []wire.Refusal{{Seq: 1, Index: 1, Count: 2, Why: []byte("no")},
		{Seq: 1, Index: 5, Count: 9, Why: []byte("no")}}
	k := wire.AckState{Acked: 0}
	for range 2 { // the receiver repeats itself
		require.NoError(t, b.core.OnState(b.now, b.peer, &wire.LinkStateBody{Progress: k, Refusals: refused}))
	}
	require.Equal(t, []string{"x never", "x never", "x never"}, b.fates())
	b.core.MarkDead(b.now, b.peer, errors.New("gone"))
	require.Equal(t, []string{"x unknown", "x unknown", "x unknown"}, b.fates())
	require.Equal(t, Stats{Sent: 1, Undeliverable: 3, Indeterminate: 3}, b.core.Stats())
}

func TestResend_sendsOnlyRequestedPackets_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	for _, m := range []string{"a", "b", "c", "d"} {
		b.post(m)
		b.leave()
	}
	ask := func(after, upto uint64) [][2]uint64 {
		require.NoError(t, b.core.OnState(b.now, b.peer, &wire.LinkStateBody{Missing: []uint64{after, upto}}))
		return b.links()
	}
	require.Equal(t, [][2]uint64{{2, 1}, {3, 2}}, ask(1, 3))
	require.Empty(t, ask(1, 3), "the question was older than the answer")
	b.now += Instant(25 * time.Millisecond)
	require.Equal(t, [][2]uint64{{2, 1}}, ask(1, 2))
	b.ack(3)
	require.Empty(t, ask(1, 2), "the request is older than the arrival")
	require.EqualValues(t, 3, b.core.Stats().Retransmitted)
}

func TestProbe_backsOffToOnePerSecond_LINK4(t *testing.T) {
	b := newBench(t, Config{})
	b.post("a")
	b.leave()
	var at []time.Duration
	for began := b.now; b.now < began+Instant(5*time.Second); {
		b.after(10 * time.Millisecond)
		for _, s := range b.leave() {
			require.Equal(t, wire.Head{Kind: wire.Probe, Seq: 1}, s.Head)
			at = append(at, time.Duration(b.now-began))
		}
	}
	ms := time.Millisecond
	require.Equal(t, []time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2600 * ms, 3600 * ms,
		4600 * ms}, at)
	b.ack(1)
	b.after(time.Minute)
	require.Empty(t, b.leave())
	require.Zero(t, b.core.Due(), "and a link at rest costs nothing")
}

func TestWindow_limitsBytesInFlight_LINK5(t *testing.T) {
	b := newBench(t, Config{PacketSize: 1000, InitialWindow: 4000})
	for range 20 {
		b.post(strings.Repeat("x", 900))
	}
	first := b.links()
	require.Len(t, first, 3)
	require.Empty(t, b.links())
	require.NoError(t, b.core.OnHead(b.now, b.peer,
		&wire.AckState{Acked: 2, ReceivedBytes: b.peer.out.sentBytes / 3 * 2, Window: 2500}))
	require.Len(t, b.links(), 1)
	require.NoError(t, b.core.OnHead(b.now, b.peer,
		&wire.AckState{Acked: 4, ReceivedBytes: b.peer.out.sentBytes, Window: 1}))
	require.Len(t, b.links(), 1, "a window holds one packet, however small it is")
	require.Empty(t, b.links())
}

func TestWindow_isSharedByManySenders_LINK5(t *testing.T) {
	b := newBench(t, Config{Window: 100_000, WindowAll: 200_000})
	for i, to := range b.others(20) {
		_, ok := b.core.Arrive(b.now, to.Peer, Arrival{Seq: 1})
		require.True(t, ok)
		require.EqualValues(t, min(100_000, 200_000/(i+1)), b.core.receiveWindow())
	}
	for _, to := range b.others(20) {
		b.core.MarkDead(b.now, to.Peer, errors.New("dead"))
	}
	require.EqualValues(t, 100_000, b.core.receiveWindow())
}

func TestOutbox_refusesWhenFullAndSignalsRoom_LINK11(t *testing.T) {
	b := newBench(t, Config{PacketSize: 1000, InitialWindow: 1000, Outbox: 3000, OutboxAll: 5000})
	other := b.others(1)[0]
	big := wire.Envelope{Kind: wire.Message, Sender: "s", Body: make([]byte, 900)}
	full := func(to *Target, e wire.Envelope) bool {
		err := b.core.Send(b.now, to, &e, Mark{}, 0)
		e2, ok := errors.AsType[*Error](err)
		return ok && e2.Reason == QueueFull
	}
	for range 3 {
		require.False(t, full(b.to, big))
	}
	require.True(t, full(b.to, big), "its own queue is full")
	require.False(t, full(other, big))
	require.False(t, full(other, big))
	require.True(t, full(other, big), "and so are all together")
	answer := big
	answer.Kind = wire.Value
	require.False(t, full(b.to, answer), "an answer has room")
	b.effects()
	b.links()
	rooms := map[*Peer]bool{}
	for _, e := range b.effects() {
		rooms[e.Peer] = rooms[e.Peer] || e.Kind == EffectRoom
	}
	require.Equal(t, map[*Peer]bool{b.peer: true, other.Peer: true}, rooms)
}

func TestClose_givesQueuedMessagesAFateAndRefusesMore(t *testing.T) {
	b := newBench(t, Config{})
	b.core.Arrive(b.now, b.peer, Arrival{Seq: 1})
	b.core.Done(b.now, b.peer, Arrival{Seq: 1}, nil)
	b.post("sent")
	b.leave()
	b.post("queued")
	barrier := b.core.Barrier(b.now)
	b.core.Close(errClosed)
	b.core.Close(errClosed)
	var kinds []wire.PacketKind
	for _, e := range b.core.effects {
		if e.Kind == EffectControl {
			kinds = append(kinds, e.Packet)
		}
	}
	require.Equal(t, []wire.PacketKind{wire.SenderReset}, kinds, "the sent packet has the acknowledgement")
	require.Equal(t, []string{"sent unknown", "queued never"}, b.fates())
	require.ErrorIs(t, b.send(wire.Envelope{Body: []byte("x")}), errClosed)
	_, ok := b.core.Arrive(b.now, b.peer, Arrival{Seq: 2, PrevSeq: 1})
	require.False(t, ok)
	<-barrier.Done()
}

func TestFirstSeq_successorIsNotMistakenForADeadProcess(t *testing.T) {
	old, now := newBench(t, Config{}), newBench(t, Config{FirstSeq: 1 << 40})
	receiver := newBench(t, Config{})
	from := receiver.others(1)[0].Peer
	arrives := func(b *bench) bool {
		s := b.leave()[0]
		_, delivered := receiver.core.Arrive(receiver.now, from,
			Arrival{Seq: s.Seq, PrevSeq: s.PrevSeq, Size: s.size})
		return delivered
	}
	old.post("a")
	require.True(t, arrives(old))
	now.post("b")
	require.True(t, arrives(now), "its first packet is no duplicate")
	again := newBench(t, Config{})
	again.post("c")
	require.False(t, arrives(again), "without First it would be")
}
