package actor_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
)

func TestFlush_ofAClosedProcIsAnError(t *testing.T) {
	a := alone(t)
	require.NoError(t, a.Close(testkit.Soon(t)))
	for range 100 {
		require.ErrorIs(t, a.Flush(testkit.Soon(t)), actor.ErrStopped)
	}
}

func TestStats_countEachMalformedMessageOnce(t *testing.T) {
	srv := bustest.Server(t)
	a, s := start(t, srv, "left"), newStranger(t, srv)
	require.NoError(t, add.Send(t.Context(), s.ref(a), 1))
	h, _ := s.packet(t)
	before := a.Stats().Malformed
	s.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: math.MaxUint64}})
	s.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: h.Seq, ReceivedBytes: 1}})
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.Equal(t, before+1, a.Stats().Malformed)
}

func TestErrBacklog_isNotCausedByOneLargeMessage(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	ref, _ := newLedger(t, b, a)
	other := spawn(t, b).Via(a)
	deafen(t, b, a)
	require.NoError(t, enter.Send(t.Context(), ref, entry{By: "me", Pad: make([]byte, 20<<20)}))
	require.NoError(t, add.Send(t.Context(), other, 1), "8 MiB, besides one larger message")
}

func TestChunks_refusalNamesActorAndEndpoint(t *testing.T) {
	srv := bustest.Server(t)
	b, s := start(t, srv, "right"), newStranger(t, srv)
	ref := spawn(t, b)
	e := wire.Envelope{Kind: wire.Chunk, Actor: ref.ID().Name, Port: "add", Sender: "x",
		Ext: wire.ChunkHead{ID: 1, Total: 4}.Append(nil), Body: []byte{1, 2, 3, 4}}
	require.NoError(t, s.Data().Publish(s.space.Frame(b.ID().Process(), senderOf(s.id)),
		packet(1, 0, e)))
	why := actor.FromWire(s.awaitRefusals(t)[0].Why)
	require.Equal(t, []string{ref.ID().String(), "add"}, []string{why.Actor, why.Endpoint})
}

func TestChunks_nextMessageGoesToTheChunksActor(t *testing.T) {
	srv := bustest.Server(t)
	b, s := start(t, srv, "right"), newStranger(t, srv)
	one, other := spawn(t, b), spawn(t, b)
	inner := (&wire.Envelope{Kind: wire.Message, Actor: one.ID().Name, Port: "add", Sender: "x",
		Body: []byte{1}}).Append(nil, false)
	part := wire.Envelope{Kind: wire.Chunk, Actor: other.ID().Name, Port: "add", Sender: "x",
		Ext: wire.ChunkHead{ID: 1, Total: len(inner)}.Append(nil), Body: inner}
	data := part.Append(wire.AppendHead(nil, wire.Head{Kind: wire.Data, Seq: 1}), false)
	data = (&wire.Envelope{Kind: wire.Message, Body: []byte{2}}).Append(data, true)
	require.NoError(t, s.Data().Publish(s.space.Frame(b.ID().Process(), senderOf(s.id)), data))
	testkit.Until(t, "both came", func() bool {
		i, _ := b.Actor(one.ID().Name)
		j, _ := b.Actor(other.ID().Name)
		return i.Handled+j.Handled == 2
	})
	got, err := history.Call(t.Context(), other, actor.None{})
	require.NoError(t, err)
	require.Equal(t, []int64{2}, got)
}

func TestCancel_endsCallsWithoutADeadline(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	b, s := start(t, srv, "right", ledgers()), newStranger(t, srv)
	ref, book := newLedger(t, b, b)
	reply := s.id.Actor("x").Port("_01").String()
	s.send(t, ref.ID().Port("linger"), senderOf(s.id),
		packet(1, 0, wire.Envelope{Kind: wire.Message, Sender: "x", Reply: reply, Body: []byte{1}}))
	testkit.Next(t, book.began)
	s.sendControl(t, b, wire.Cancel, wire.CancelBody{Replies: []string{reply}})
	select {
	case <-book.ended:
	case <-time.After(testkit.Patience):
		b.KillActor(ref.ID().Name, "enough")
		t.Error("its context did not end")
	}
}

// The data connection receives nothing of its own.
func TestEmit_isVisibleToItsOwnProc(t *testing.T) {
	p := start(t, bustest.Server(t), "alone")
	heard := make(chan bus.Msg, 10)
	_, err := p.Bus().Data().Subscribe(p.Space().Events(actor.KindProc, p.ID().Mesh),
		func(m bus.Msg) { heard <- m })
	require.NoError(t, err)
	p.Emit(actor.Event{Kind: actor.KindProc, Status: "told", Mesh: p.ID().Mesh.String()})
	require.Contains(t, string(testkit.Next(t, heard).Data), "told")
}
