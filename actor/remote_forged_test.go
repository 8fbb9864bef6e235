package actor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// stranger is a process with the protocol of links, under the test's control.
type stranger struct {
	forger
	id            subjects.ProcID
	data, control chan bus.Msg
}

func newStranger(t testing.TB, srv *embed.Server) *stranger {
	t.Helper()
	s := &stranger{
		forger: newForger(t, srv), id: newHost(t, "stranger").Proc(),
		data: make(chan bus.Msg, 1<<12), control: make(chan bus.Msg, 1<<12),
	}
	for subject, ch := range map[string]chan bus.Msg{
		s.space.PortsOf(s.id): s.data, s.space.FramesOf(s.id.Process()): s.data,
		s.space.ControlsOf(s.id.Process()): s.control,
	} {
		_, err := s.Data().Subscribe(subject, func(m bus.Msg) { ch <- m })
		require.NoError(t, err)
	}
	return s
}

// sendControl sends a control packet to a proc.
func (s *stranger) sendControl(t testing.TB, to *actor.Proc, kind wire.PacketKind, body any) {
	t.Helper()
	data, err := wire.AppendControl(nil, kind, body)
	require.NoError(t, err)
	require.NoError(t, s.Control().Publish(s.space.Control(to.ID().Process(), senderOf(s.id)), data))
}

// sendUrgent sends an urgent message, or answer, to a proc.
func (s *stranger) sendUrgent(t testing.TB, to subjects.ProcID, e *wire.Envelope) {
	t.Helper()
	require.NoError(t, s.Control().Publish(s.space.Control(to.Process(), senderOf(s.id)),
		wire.AppendUrgent(nil, e)))
}

// awaitControl waits for a control packet of a kind.
func (s *stranger) awaitControl(t testing.TB, kind wire.PacketKind) any {
	t.Helper()
	for {
		got, body, err := wire.DecodeControl(testkit.Next(t, s.control).Data)
		require.NoError(t, err)
		if got == kind {
			return body
		}
	}
}

// awaitRefusals waits for an acknowledgement with refusals.
func (s *stranger) awaitRefusals(t testing.TB) []wire.Refusal {
	t.Helper()
	for {
		if all := s.awaitControl(t, wire.LinkState).(*wire.LinkStateBody).Refusals; len(all) > 0 {
			return all
		}
	}
}

// packet waits for a packet with messages.
func (s *stranger) packet(t testing.TB) (h wire.Head, e wire.Envelope) {
	t.Helper()
	for {
		h, rest, err := wire.DecodeHead(testkit.Next(t, s.data).Data)
		require.NoError(t, err)
		if h.Kind != wire.Data {
			continue
		}
		es := wire.NewEnvelopeReader(rest)
		_, ok := es.Next(&e)
		require.True(t, ok)
		return h, e
	}
}

// ref is an actor that a proc believes to be at the stranger's.
func (s *stranger) ref(via *actor.Proc) actor.Ref[*Box] {
	return actor.RefOf[*Box](s.id.Actor("x")).Via(via)
}

func TestLink_countsForgedPackets(t *testing.T) {
	huge := uint64(math.MaxUint64)
	srv := bustest.Server(t)
	a, b, s := start(t, srv, "left"), start(t, srv, "right"), newStranger(t, srv)
	ref := spawn(t, a)
	from := senderOf(s.id)
	require.NoError(t, add.Send(t.Context(), s.ref(a), 1))
	h, _ := s.packet(t)
	for name, lie := range map[string]func(){
		"more was acknowledged than sent": func() {
			s.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: h.Seq + 1}})
		},
		"more bytes came than left": func() {
			s.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: h.Seq, ReceivedBytes: huge,
				Window: huge}})
		},
		"a packet follows itself": func() { s.send(t, ref.ID().Port("add"), from, message(huge, huge, 1)) },
		"a packet has no number":  func() { s.send(t, ref.ID().Port("add"), from, message(0, 0, 1)) },
		"a repair of another process's packet": func() {
			data := wire.AppendHead(nil, wire.Head{Kind: wire.Repair, Seq: 1})
			data = wire.AppendRepair(data, a.Space().Port(ref.ID().Port("add"), b.Sender()),
				message(1, 0, 1))
			s.send(t, ref.ID().Port("add"), from, data)
		},
		"a piece beyond its packet": func() {
			data := wire.AppendHead(nil, wire.Head{Kind: wire.Fragment, Seq: 1})
			s.send(t, ref.ID().Port("add"), from, wire.AppendFragment(data, wire.FragmentHead{Offset: 3, Total: 4},
				[]byte("xx")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := a.Stats().Malformed
			lie()
			testkit.Until(t, "it is counted", func() bool { return a.Stats().Malformed > before })
		})
	}
	require.Zero(t, a.Stats().Bounced)
	n, err := add.Call(testkit.Soon(t), ref.Via(b), 10)
	require.NoError(t, err)
	require.EqualValues(t, 10, n, "none of it was a message")
	s.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: h.Seq, ReceivedBytes: 1,
		Window: huge}})
	require.NoError(t, a.Flush(testkit.Soon(t)), "the truth is believed all the same")
	s.send(t, ref.ID().Port("add"), from, message(1, 0, 5))
	testkit.Until(t, "its message, too",
		func() bool { got, _ := history.Call(testkit.Soon(t), ref, actor.None{}); return len(got) == 2 })
}

func TestChunks_refusesMismatchedChunksOnly(t *testing.T) {
	srv := bustest.Server(t)
	b, s := start(t, srv, "right"), newStranger(t, srv)
	ref := spawn(t, b)
	part := func(n uint64, of wire.ChunkHead, body []byte) {
		e := wire.Envelope{Kind: wire.Chunk, Sender: "x", Ext: of.Append(nil), Body: body}
		s.send(t, ref.ID().Port("add"), senderOf(s.id), packet(n, n-1, e))
	}
	part(1, wire.ChunkHead{ID: 1, Total: 100}, make([]byte, 10))
	part(2, wire.ChunkHead{ID: 1, Offset: 50, Total: 100}, make([]byte, 50))
	refused := s.awaitRefusals(t) // the first part may be acknowledged before
	require.Len(t, refused, 1)
	require.ErrorIs(t, actor.FromWire(refused[0].Why), actor.ErrTooLarge)
	s.send(t, ref.ID().Port("add"), senderOf(s.id), message(3, 2, 7))
	testkit.Until(t, "it is handled", func() bool { i, _ := b.Actor(ref.ID().Name); return i.Handled == 1 })
}

func TestCancel_ignoresForgedCancels(t *testing.T) {
	srv := bustest.Server(t)
	a, b, s := start(t, srv, "left", ledgers()), start(t, srv, "right", ledgers()), newStranger(t, srv)
	w := newTap(t, srv, b)
	ref, book := newLedger(t, b, a)
	ctx, cancel := context2(t)
	asked := make(chan error, 1)
	go func() { asked <- second(linger.Call(ctx, ref, 1)) }()
	testkit.Next(t, book.began)
	e := w.question(t)
	require.NotEmpty(t, e.Reply)
	s.sendControl(t, b, wire.Cancel, wire.CancelBody{Replies: []string{e.Reply, "nonsense", ""}})
	// follows it, and is counted
	s.sendControl(t, b, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: 1}})
	s.send(t, ref.ID().Port("linger"), senderOf(s.id), packet(1, 0, wire.Envelope{Kind: wire.Failure}))
	testkit.Until(t, "it came", func() bool { return b.Stats().Late == 1 })
	require.Empty(t, book.ended)
	require.Empty(t, asked)
	cancel()
	require.ErrorIs(t, testkit.Next(t, asked), &actor.Error{Code: actor.CodeCanceled})
	_ = testkit.Next(t, book.ended)
}

func TestBounce_ignoresForgedBounces(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	b, s := start(t, srv, "right"), newStranger(t, srv)
	from := senderOf(s.id)
	one, err := wire.Marshal(1)
	require.NoError(t, err)
	ask := wire.Envelope{Kind: wire.Message, Sender: "x", Reply: s.id.Actor("x").Port("_0z").String(), Body: one}
	s.send(t, spawn(t, b).ID().Port("add"), from, packet(1, 0, ask))
	_, e := s.packet(t)
	require.Equal(t, wire.Value, e.Kind)
	s.send(t, b.ID().Actor("client").Port("_back"), from,
		packet(2, 1, wire.Envelope{Kind: wire.Bounce, Sender: "x", Body: []byte("no error")}))
	var refused []wire.Refusal
	for len(refused) == 0 {
		refused = s.awaitControl(t, wire.LinkState).(*wire.LinkStateBody).Refusals
	}
	require.ErrorContains(t, actor.FromWire(refused[0].Why), "no message was sent to")
	require.Zero(t, b.Stats().Bounced)
}
