package link_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// packet is a Data packet with envelopes for the port in of an actor x.
func packet(h wire.Head, es ...wire.Envelope) []byte {
	h.Kind = wire.Data
	b := wire.AppendHead(nil, h)
	for _, e := range es {
		e.Actor, e.Port = "x", "in"
		b = e.Append(b, false)
	}
	return b
}

// texts are the texts of messages.
func texts(all ...string) (es []wire.Envelope) {
	for _, text := range all {
		es = append(es, *say(text))
	}
	return es
}

// bodies are the contents of letters.
func bodies(all []letter) (out []string) {
	for _, l := range all {
		out = append(out, l.body)
	}
	return out
}

func TestLink_repairsRandomLossInOrder(t *testing.T) {
	const n, senders = 1_000, 3
	srv := bustest.Server(t)
	small := link.Config{PacketSize: 300} // so that there is more to lose
	a, b := newNode(t, srv, "a", small), newNode(t, srv, "b", small)
	var lost atomic.Uint64
	lose := func(bus.Msg) bool { return rand.IntN(20) == 0 && lost.Add(1) > 0 }
	a.loses.Store(&lose)
	b.loses.Store(&lose)
	for i := range n {
		for s := range senders {
			e := say(fmt.Sprint(i))
			e.Sender = fmt.Sprint("s", s)
			require.NoError(t, a.SendWait(testkit.Soon(t), a.Target(b.to(fmt.Sprint("x", s))), e, link.Mark{}, 0))
		}
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	next := map[string]int{}
	for _, l := range b.letters() {
		require.Equal(t, fmt.Sprint(next[l.actor]), l.body)
		next[l.actor]++
	}
	require.Equal(t, map[string]int{"x0": n, "x1": n, "x2": n}, next)
	require.NotZero(t, lost.Load())
	require.Empty(t, a.allFates())
}

func TestReceive_countsMalformedPackets(t *testing.T) {
	srv := bustest.Server(t)
	a, r, other := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw"),
		newNode(t, srv, "other", link.Config{})
	counted := func() int { return len(a.complaints()) + int(a.Stats().Malformed) }
	known := func(k wire.AckState) []byte {
		return wire.AppendHead(nil, wire.Head{Kind: wire.Probe, Ack: &k})
	}
	repair := func(subject string, packet []byte) []byte {
		return wire.AppendRepair(wire.AppendHead(nil, wire.Head{Kind: wire.Repair, Seq: 1}), subject, packet)
	}
	piece := func(c wire.FragmentHead, part string) []byte {
		return wire.AppendFragment(wire.AppendHead(nil, wire.Head{Kind: wire.Fragment, Seq: 1}), c, []byte(part))
	}
	mine := a.space.Port(a.to("x"), senderOf(r.id))
	for name, data := range map[string][]byte{
		"a truncated head":                {0, wire.Version, byte(wire.Data)},
		"another version":                 {0, wire.Version + 1, byte(wire.Data), 0, 0, 1, 0},
		"an unknown kind":                 {0, wire.Version, 200, 0, 0, 1, 0},
		"a control packet among the data": wire.AppendHead(nil, wire.Head{Kind: wire.LinkState}),
		"number 0":                        packet(wire.Head{}, texts("x")...),
		"a number that follows itself":    packet(wire.Head{Seq: 7, PrevSeq: 7}, texts("x")...),
		"a number after a later one": packet(wire.Head{Seq: 7, PrevSeq: math.MaxUint64},
			texts("x")...),
		"the continuation of nothing": packet(wire.Head{Seq: math.MaxUint64, PrevSeq: 0},
			texts("x")...)[:5],
		"an acknowledgement of an unsent packet": known(wire.AckState{Acked: math.MaxUint64}),
		"a repair without a subject":             wire.AppendHead(nil, wire.Head{Kind: wire.Repair, Seq: 1}),
		"a repair for another namespace":         repair("else.where", packet(wire.Head{Seq: 1}, texts("x")...)),
		"a repair of somebody else's packet": repair(a.space.Port(a.to("x"), senderOf(other.id)),
			packet(wire.Head{Seq: 1}, texts("x")...)),
		"a repair of another principal's packet": repair(
			a.space.Port(a.to("x"), subjects.NewSender(subjects.UserPrincipal(subjects.Program, "other"), r.id)),
			packet(wire.Head{Seq: 1}, texts("x")...)),
		"a repair of a frame": repair(a.space.Frame(a.id, senderOf(r.id)),
			packet(wire.Head{Seq: 1}, texts("x")...)),
		"a repair of a beat": repair(mine,
			wire.AppendHead(nil, wire.Head{Kind: wire.Probe, Seq: 1})),
		"a repair of nothing":      repair(mine, nil),
		"a piece beyond the whole": piece(wire.FragmentHead{Offset: 9, Total: 10}, "two"),
		"an empty piece":           piece(wire.FragmentHead{Total: 10}, ""),
		"a piece of no packet":     piece(wire.FragmentHead{Total: 7}, "nothing"),
		"a piece of a piece": piece(
			wire.FragmentHead{Total: len(piece(wire.FragmentHead{Total: 1}, "x"))},
			string(piece(wire.FragmentHead{Total: 1}, "x"))),
	} {
		t.Run(name, func(t *testing.T) {
			before := counted()
			r.publishTo(t, a, data)
			testkit.Until(t, "it is counted", func() bool { return counted() > before })
			require.Empty(t, a.letters())
		})
	}
	for name, body := range map[string]any{
		"more than was sent": wire.LinkStateBody{Progress: wire.AckState{Acked: math.MaxUint64}},
		"more bytes than were": wire.LinkStateBody{Progress: wire.AckState{Acked: 1,
			ReceivedBytes: math.MaxUint64}},
		"a question of odd length": wire.FateQueryBody{Seq: 99, Indexes: []int{1}},
		"a question about nothing": wire.FateQueryBody{Seq: 99},
	} {
		t.Run(name, func(t *testing.T) {
			if a.Stats().Sent == 0 { // packet 1 is under way
				require.NoError(t, a.Send(a.Target(r.to("x")), say("hello"), link.Mark{}, 0))
				r.packetOf(t)
			}
			before := counted()
			kind := wire.LinkState
			if _, is := body.(wire.FateQueryBody); is {
				kind = wire.FateQuery
			}
			r.sendControl(t, a, kind, body)
			testkit.Until(t, "it is counted", func() bool { return counted() > before })
		})
	}
	require.Empty(t, a.allFates(), "sent packets are unchanged")
	require.NoError(t, other.Send(other.Target(a.to("x")), say("all is well"), link.Mark{}, 0))
	require.NoError(t, other.Flush(testkit.Soon(t)))
	r.publishTo(t, a, packet(wire.Head{Seq: 1}, texts("with me, too")...))
	require.Equal(t, []string{"all is well", "with me, too"}, bodies(a.await(t, 2)))
}

func TestReceive_ignoresFalseClaimsOfAPeer(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	require.NoError(t, a.Send(a.Target(r.to("x")), say("hello"), link.Mark{}, 0))
	_, h, _ := r.packetOf(t)
	huge := uint64(math.MaxUint64)
	for kind, bodies := range map[wire.PacketKind][]any{
		wire.ConfirmRefusals: {wire.ConfirmBody{Next: huge}, wire.ConfirmBody{}},
		wire.ReceiverReset:   {wire.ResetBody{Seq: huge}, wire.ResetBody{}},
		wire.SenderReset:     {wire.ResetBody{}},
		wire.FateReply: {
			wire.FateQueryBody{Seq: h.Seq, Indexes: []int{-1, 1}},
			wire.FateQueryBody{Seq: h.Seq, Indexes: []int{0, math.MaxInt}},
			wire.FateQueryBody{Seq: h.Seq, Indexes: []int{math.MaxInt, math.MaxInt}},
			wire.FateQueryBody{Seq: huge, Indexes: []int{0, 1}},
			wire.FateQueryBody{Seq: h.Seq, Indexes: []int{0}},
		},
		wire.FateQuery: {wire.FateQueryBody{Seq: huge, Indexes: []int{-5, math.MaxInt, math.MaxInt, -5}}},
		wire.LinkState: {
			wire.LinkStateBody{Refusals: []wire.Refusal{{Seq: h.Seq, Index: -1, Count: 1},
				{Seq: h.Seq, Index: 1, Count: math.MaxInt}, {Seq: huge, Count: 1}, {Seq: h.Seq, Count: -1}}},
			wire.LinkStateBody{Missing: []uint64{huge, huge}},
			wire.LinkStateBody{Missing: []uint64{h.Seq, h.Seq - 1, 0}},
			wire.LinkStateBody{Progress: wire.AckState{Window: huge}},
		},
		wire.Resume: {struct{}{}},
	} {
		for _, body := range bodies {
			r.sendControl(t, a, kind, body)
		}
	}
	r.sendControl(t, a, wire.Cancel, wire.CancelBody{Replies: []string{"last"}})
	testkit.Until(t, "all came", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.cancelled) == 1
	})
	require.Empty(t, a.allFates())
	require.Equal(t, 1, a.Infos(1)[0].InFlight)
	r.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: h.Seq, ReceivedBytes: 1,
		Window: huge}})
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.Empty(t, a.allFates())
	require.LessOrEqual(t, a.Infos(1)[0].Credit, int64(8<<20), "no window is larger than our own")
	r.publishTo(t, a, packet(wire.Head{Seq: 5}, texts("hello yourself")...))
	require.Equal(t, []string{"hello yourself"}, bodies(a.await(t, 1)))
}

func TestReceive_absurdSequenceNumberAffectsOnlyItsSender_LINK14(t *testing.T) {
	srv := bustest.Server(t)
	a, r, other := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw"),
		newNode(t, srv, "other", link.Config{})
	r.publishTo(t, a, packet(wire.Head{Seq: math.MaxUint64}, texts("the last")...))
	require.Equal(t, []string{"the last"}, bodies(a.await(t, 1)))
	r.sendControl(t, a, wire.SenderReset, wire.ResetBody{Text: "not mine", Last: math.MaxUint64})
	r.sendControl(t, a, wire.SenderReset, wire.ResetBody{Text: "not mine, either", Last: 7})
	testkit.Until(t, "disowned", func() bool { return a.Stats().Malformed == 1 })
	r.publishTo(t, a, packet(wire.Head{Seq: 1}, texts("the first")...))
	require.Equal(t, []string{"the last", "the first"}, bodies(a.await(t, 2)))
	for i := range 10 {
		require.NoError(t, other.Send(other.Target(a.to("x")), say(fmt.Sprint(i)), link.Mark{}, 0))
	}
	require.NoError(t, other.Flush(testkit.Soon(t)))
	require.Len(t, a.letters(), 12)
	require.NoError(t, a.Send(a.Target(r.to("x")), say("and back"), link.Mark{}, 0))
	_, _, got := r.packetOf(t)
	require.Equal(t, []string{"and back"}, got)
}

// A server that lets processes share a principal lets each write the names of all processes.
func TestReceive_anotherSenderOfAProcessIsRefused_LINK14(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	r.publishTo(t, a, packet(wire.Head{Seq: 1}, texts("mine")...))
	require.Equal(t, []string{"mine"}, bodies(a.await(t, 1)))
	evil := subjects.NewSender(subjects.Proc.Principal("evil"), r.id)
	forged := packet(wire.Head{Seq: 2, PrevSeq: 1}, texts("forged")...)
	require.NoError(t, r.bus.Data().Publish(a.space.Frame(a.id, evil), forged))
	for kind, body := range map[wire.PacketKind]any{
		wire.SenderReset: wire.ResetBody{Text: "forged", Last: 7}, wire.Cancel: wire.CancelBody{},
	} {
		data, err := wire.AppendControl(nil, kind, body)
		require.NoError(t, err)
		require.NoError(t, r.bus.Data().Publish(a.space.Control(a.id, evil), data))
	}
	testkit.Until(t, "all are counted", func() bool { return len(a.complaints()) == 3 })
	require.Equal(t, senderOf(r.id), a.SenderOf(r.id))
	r.publishTo(t, a, packet(wire.Head{Seq: 2, PrevSeq: 1}, texts("mine, too")...))
	require.Equal(t, []string{"mine", "mine, too"}, bodies(a.await(t, 2)))
}

func TestReceive_repairedPacketsKeepTheirOrder(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	r.publishTo(t, a, packet(wire.Head{Seq: 4}, texts("0", "1")...))
	r.publishTo(t, a, packet(wire.Head{Seq: 9, PrevSeq: 7}, texts("3")...))
	s := r.awaitControl(t, wire.LinkState).(*wire.LinkStateBody)
	if len(s.Missing) == 0 { // of the first one alone
		s = r.awaitControl(t, wire.LinkState).(*wire.LinkStateBody)
	}
	require.Equal(t, []uint64{4, 7}, s.Missing)
	inner := packet(wire.Head{Seq: 5}, texts("2")...) // it went to many, as number 5 of another order
	data := wire.AppendRepair(wire.AppendHead(nil, wire.Head{Kind: wire.Repair, Seq: 7, PrevSeq: 4}),
		a.space.Port(a.to("y"), senderOf(r.id)), inner)
	r.publishTo(t, a, data)
	letters := a.await(t, 4)
	require.Equal(t, []string{"0", "1", "2", "3"}, bodies(letters))
	require.Equal(t, "y", letters[2].actor, "the subject has the address")
}

func TestReceive_subtractsPacketAgeFromTheDeadline(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	es := texts("ten seconds", "one", "any")
	es[0].TTL, es[1].TTL = 10*time.Second, time.Second
	r.publishTo(t, a, packet(wire.Head{Seq: 1, Age: 4 * time.Second}, es...))
	letters := a.await(t, 3)
	require.Equal(t, 6*time.Second, letters[0].ttl)
	require.Equal(t, time.Millisecond, letters[1].ttl, "0 would be none")
	require.Zero(t, letters[2].ttl)
}

func TestReceive_deliversTheIntactPartOfATruncatedPacket(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	whole := packet(wire.Head{Seq: 1}, texts("first", "second")...)
	r.publishTo(t, a, whole[:len(whole)-1])
	testkit.Until(t, "it is counted", func() bool { return len(a.complaints()) == 1 })
	require.Equal(t, []string{"first"}, bodies(a.letters()))
	r.publishTo(t, a, packet(wire.Head{Seq: 2, PrevSeq: 1}, texts("next")...))
	require.Equal(t, []string{"first", "next"}, bodies(a.await(t, 2)))
}

func TestReceive_reassemblesASplitPacket(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	whole := packet(wire.Head{Seq: 1}, texts(strings.Repeat("long", 100))...)
	piece := func(offset, size int) []byte {
		head := wire.AppendHead(nil, wire.Head{Kind: wire.Fragment, Seq: 1})
		return wire.AppendFragment(head, wire.FragmentHead{Offset: offset, Total: len(whole)},
			whole[offset:min(len(whole), offset+size)])
	}
	r.publishTo(t, a, piece(100, 100)) // no beginning
	r.publishTo(t, a, piece(0, 100))
	r.publishTo(t, a, piece(200, 100)) // no middle
	r.publishTo(t, a, piece(0, 100))   // from the beginning
	for offset := 100; offset < len(whole); offset += 100 {
		r.publishTo(t, a, piece(offset, 100))
	}
	r.publishTo(t, a, piece(0, len(whole))) // it was here
	require.Equal(t, []string{strings.Repeat("long", 100)}, bodies(a.await(t, 1)))
	r.publishTo(t, a, packet(wire.Head{Seq: 2, PrevSeq: 1}, texts("next")...))
	require.Len(t, a.await(t, 2), 2)
	require.Empty(t, a.complaints())
}

func TestReceive_mismatchedChunksAreRefusedAsOneMessage(t *testing.T) {
	part := func(id uint64, offset, total int, body []byte) wire.Envelope {
		return wire.Envelope{Kind: wire.Chunk, Sender: "s",
			Ext: wire.ChunkHead{ID: id, Offset: offset, Total: total}.Append(nil), Body: body}
	}
	inner := (&wire.Envelope{Kind: wire.Message, Actor: "x", Port: "in", Sender: "s", Body: []byte("whole")}).
		Append(nil, false)
	half := len(inner) / 2
	for name, c := range map[string]struct {
		parts []wire.Envelope
		why   string
	}{
		"no beginning": {[]wire.Envelope{part(1, half, len(inner), inner[half:])}, "does not follow"},
		"a hole": {[]wire.Envelope{part(1, 0, 10, inner[:2]), part(1, 8, 10, inner[:2])},
			"does not follow"},
		"another size": {[]wire.Envelope{part(1, 0, 10, inner[:5]), part(1, 5, 9, inner[:4])},
			"does not follow"},
		"no message": {[]wire.Envelope{part(1, 0, 4, []byte{1, 2, 3, 4})},
			"cannot decode the message from its parts"},
		"a part of a part": {[]wire.Envelope{part(1, 0, len(partOf(inner)), partOf(inner))},
			"cannot decode the message from its parts"},
		"no part": {[]wire.Envelope{{Kind: wire.Chunk, Sender: "s", Body: inner}},
			"malformed or missing number"},
		"more than there may": {[]wire.Envelope{part(1, math.MaxInt32-4, math.MaxInt32, inner[:4])},
			"does not follow"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := bustest.Server(t)
			a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
			for i, p := range c.parts {
				r.publishTo(t, a, packet(wire.Head{Seq: uint64(i + 1), PrevSeq: uint64(i)}, p))
			}
			s := r.awaitControl(t, wire.LinkState).(*wire.LinkStateBody)
			if len(s.Refusals) == 0 { // it acknowledges the first part only
				s = r.awaitControl(t, wire.LinkState).(*wire.LinkStateBody)
			}
			require.Len(t, s.Refusals, 1)
			require.EqualValues(t, len(c.parts), s.Refusals[0].Seq, "the last part has the fate of the message")
			var why wire.Error
			require.NoError(t, wire.Unmarshal(s.Refusals[0].Why, &why))
			require.EqualValues(t, link.TooLargeCode, why.Code)
			require.Contains(t, why.Text, c.why)
			n := uint64(len(c.parts))
			r.publishTo(t, a, packet(wire.Head{Seq: n + 1, PrevSeq: n}, part(2, 0, len(inner), inner)))
			require.Equal(t, []string{"whole"}, bodies(a.await(t, 1)))
		})
	}
}

// partOf is an envelope in a part of its own.
func partOf(inner []byte) []byte {
	e := wire.Envelope{Kind: wire.Chunk, Ext: wire.ChunkHead{ID: 1, Total: len(inner)}.Append(nil), Body: inner}
	return e.Append(nil, false)
}

func TestReceive_dropsAnAbandonedLargeMessage(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{AssemblyBytes: 1000}), newRaw(t, srv, "raw")
	body := bytes.Repeat([]byte{1}, 600)
	for i := range uint64(20) { // each has no room beside another
		begin := wire.Envelope{Kind: wire.Chunk, Sender: "s",
			Ext: wire.ChunkHead{ID: i, Total: 900}.Append(nil), Body: body}
		over := wire.Envelope{Kind: wire.Chunk, Sender: "s", Ext: wire.ChunkHead{ID: i}.Append(nil)}
		r.publishTo(t, a, packet(wire.Head{Seq: 2*i + 1, PrevSeq: 2 * i}, begin))
		r.publishTo(t, a, packet(wire.Head{Seq: 2*i + 2, PrevSeq: 2*i + 1}, over))
	}
	inner := (&wire.Envelope{Kind: wire.Message, Actor: "x", Port: "in", Sender: "s", Body: body}).
		Append(nil, false)
	whole := wire.Envelope{Kind: wire.Chunk, Sender: "s",
		Ext: wire.ChunkHead{ID: 99, Total: len(inner)}.Append(nil), Body: inner}
	r.publishTo(t, a, packet(wire.Head{Seq: 41, PrevSeq: 40}, whole))
	require.Equal(t, string(body), a.await(t, 1)[0].body)
}

func TestReceive_resetsAProcessKnownDead_DEL5(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	a.die(r.id, fmt.Errorf("it fell off its host"))
	r.publishTo(t, a, packet(wire.Head{Seq: 3}, texts("I am alive")...))
	b := r.awaitControl(t, wire.ReceiverReset).(*wire.ResetBody)
	require.EqualValues(t, 3, b.Seq)
	require.Contains(t, b.Text, "known to be dead here: it fell off its host")
	require.EqualValues(t, 1, a.Stats().Fenced)
	require.Empty(t, a.letters())
	require.ErrorContains(t, a.Send(a.Target(r.to("x")), say("?"), link.Mark{}, 0), "it fell off its host")
}

func TestHint_withoutAPendingMessageIsIgnored(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{NoResponderGrace: time.Nanosecond}), newRaw(t, srv, "raw")
	require.NoError(t, a.Send(a.Target(r.to("x")), say("hello"), link.Mark{}, 0))
	_, h, _ := r.packetOf(t)
	r.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: h.Seq, ReceivedBytes: 10,
		Window: 1 << 20}})
	require.NoError(t, a.Flush(testkit.Soon(t)))
	for _, m := range []bus.Msg{
		{Subject: a.space.Hint(a.id, "zz"), NoResponders: true, HintFor: "nonsense"},
		{Subject: a.space.Hint(a.id, "not-a-number"), NoResponders: true,
			HintFor: a.space.Frame(r.id, senderOf(a.id))},
		{Subject: a.space.Hint(a.id, "1"), HintFor: "nonsense"},
		{Subject: a.space.Hint(a.id, "1"), NoResponders: true, HintFor: a.space.Frame(r.id, senderOf(a.id))},
		{Subject: a.space.Hint(a.id, "1"), NoResponders: true,
			HintFor: a.space.Frame(newHost(t, "stranger").Proc().Process(), senderOf(a.id))},
	} {
		a.receive(m)
	}
	require.Len(t, a.complaints(), 2)
	require.Empty(t, a.allFates())
	require.Empty(t, a.broken)
}
