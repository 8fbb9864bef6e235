package actor_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// forger publishes under the name of any process.
type forger struct {
	*bus.Bus
	space subjects.Space
}

func newForger(t testing.TB, srv *embed.Server) forger { return forger{Bus: bustest.Open(t, srv)} }

// senderOf is the sender of a proc without a principal of its own.
func senderOf(p subjects.ProcID) subjects.Sender {
	return subjects.NewSender(subjects.UserPrincipal(subjects.Program, ""), p.Process())
}

func (f forger) send(t testing.TB, to subjects.PortID, from subjects.Sender, data []byte) {
	t.Helper()
	require.NoError(t, f.Data().Publish(f.space.Port(to, from), data))
}

// packet is packet n on a link, after prev, with one envelope.
func packet(n, prev uint64, e wire.Envelope) []byte {
	return e.Append(wire.AppendHead(nil, wire.Head{Kind: wire.Data, Seq: n, PrevSeq: prev}), false)
}

// message is packet n on a link, after prev, with a message of one byte.
func message(n, prev uint64, body byte) []byte { return packet(n, prev, frame(body)) }

// refuseLink refuses a link between two processes from packet n on.
func (f forger) refuseLink(t testing.TB, from, to *actor.Proc, n uint64) {
	t.Helper()
	data, err := wire.AppendControl(nil, wire.ReceiverReset, wire.ResetBody{Seq: n, Text: "no more of that"})
	require.NoError(t, err)
	require.NoError(t, f.Control().
		Publish(f.space.Control(to.ID().Process(), from.Sender()), data))
}

// publishEnd publishes the end of a proc.
func (f forger) publishEnd(t testing.TB, id subjects.ProcID, reason string) {
	t.Helper()
	data, err := json.Marshal(actor.Event{
		Kind: actor.KindProc, Status: "failed", Mesh: id.Mesh.String(), Rank: int(id.Rank), Gen: int(id.Gen),
		Reason: reason,
	})
	require.NoError(t, err)
	require.NoError(t, f.Control().Publish(f.space.Event(actor.KindProc, id.Scope(), teller()), data))
}

// watchUnreachable receives the unreachable procs, with reasons.
func watchUnreachable(t *testing.T, ps ...*actor.Proc) <-chan error {
	lost := make(chan error, 16)
	for _, p := range ps {
		t.Cleanup(p.Members().OnUnreachable(func(_ subjects.ProcID, err error) { lost <- err }))
	}
	return lost
}

func TestLink_refusedLinkBreaksAndTheNextMessageReopensIt_DEL3(t *testing.T) {
	srv := bustest.Server(t)
	a, b, f := start(t, srv, "left"), start(t, srv, "right"), newForger(t, srv)
	rb := spawn(t, b)
	release := blocked(t, rb)
	defer release()
	lost := watchUnreachable(t, a)
	pending := make(chan error, 2)
	go func() { pending <- second(add.Call(t.Context(), rb.Via(a), 10)) }()
	testkit.Until(t, "it waits", func() bool { info, _ := b.Actor(rb.ID().Name); return info.Queued == 1 })
	f.refuseLink(t, b, a, 1)
	err := testkit.Next(t, pending)
	require.ErrorIs(t, err, actor.ErrLinkBroken)
	require.ErrorContains(t, err, "no more of that")
	require.False(t, asError(t, err).Undeliverable())
	require.True(t, asError(t, err).Indeterminate())
	require.ErrorIs(t, testkit.Next(t, lost), actor.ErrLinkBroken)
	release()
	n, err := add.Call(t.Context(), rb.Via(a), 1)
	require.NoError(t, err)
	require.EqualValues(t, 11, n)
}

func TestLink_requestsMissingMessagesAndKeepsOrder_DEL3(t *testing.T) {
	srv := bustest.Server(t)
	b, f := start(t, srv, "right"), newForger(t, srv)
	ref := spawn(t, b)
	peer, err := subjects.NewHostID("peer")
	require.NoError(t, err)
	asks := make(chan *wire.LinkStateBody, 64)
	_, err = f.Control().Subscribe(f.space.ControlsOf(peer.Proc().Process()), func(m bus.Msg) {
		if _, body, err := wire.DecodeControl(m.Data); err == nil {
			if s, ok := body.(*wire.LinkStateBody); ok && len(s.Missing) > 0 {
				asks <- s
			}
		}
	})
	require.NoError(t, err)
	from := senderOf(peer.Proc())
	f.send(t, ref.ID().Port("add"), from, message(1, 0, 1))
	f.send(t, ref.ID().Port("add"), from, message(9, 5, 9))
	missing := testkit.Next(t, asks)
	require.Equal(t, []uint64{1, 5}, missing.Missing)
	f.send(t, ref.ID().Port("add"), from, message(5, 1, 5))
	testkit.Until(t, "all came", func() bool { return b.Stats().Links.Delivered == 3 })
	requireHistory(t, ref, 1, 5, 9)
	require.EqualValues(t, 1, b.Stats().Links.Gaps)
}

// requireHistory waits until an actor has handled n messages, and requires the wanted ones. A link
// counts one before it is in the mailbox.
func requireHistory(t *testing.T, ref actor.Ref[*Box], want ...int64) {
	t.Helper()
	var got []int64
	testkit.Until(t, "all are handled", func() bool {
		var err error
		got, err = history.Call(t.Context(), ref, actor.None{})
		require.NoError(t, err)
		return len(got) >= len(want)
	})
	require.Equal(t, want, got)
}

func TestLink_deliversEachMessageOnce_DEL3(t *testing.T) {
	srv := bustest.Server(t)
	b, f := start(t, srv, "right"), newForger(t, srv)
	ref := spawn(t, b)
	id, err := subjects.NewHostID("peer")
	require.NoError(t, err)
	from := senderOf(id.Proc())
	for _, m := range [][2]uint64{{3, 0}, {3, 0}, {5, 3}, {3, 0}, {5, 3}, {6, 5}} {
		f.send(t, ref.ID().Port("add"), from, message(m[0], m[1], byte(m[0])))
	}
	testkit.Until(t, "all came", func() bool { s := b.Stats().Links; return s.Delivered+s.Duplicates == 6 })
	requireHistory(t, ref, 3, 5, 6)
	require.EqualValues(t, 3, b.Stats().Links.Delivered)
}

func TestDeadProcs_exchangeNoMessages_DEL5(t *testing.T) {
	srv := bustest.Server(t)
	a, b, f := start(t, srv, "left"), start(t, srv, "right"), newForger(t, srv)
	ra, rb := spawn(t, a), spawn(t, b)
	_, err := add.Call(t.Context(), rb.Via(a), 1) // a follows b's mesh from here on
	require.NoError(t, err)
	f.publishEnd(t, b.ID(), "killed by signal 9")
	testkit.Until(t, "known", func() bool { _, dead := a.Members().Down(b.ID()); return dead })
	_, err = add.Call(t.Context(), rb.Via(a), 1)
	require.ErrorIs(t, err, actor.ErrProcDead)
	require.ErrorContains(t, err, "killed by signal 9")
	require.ErrorIs(t, add.Send(t.Context(), rb.Via(a), 1), actor.ErrProcDead)
	require.NoError(t, add.Send(t.Context(), ra.Via(b), 100))
	testkit.Until(t, "fenced", func() bool { return a.Stats().Fenced >= 1 })
	n, err := add.Call(t.Context(), ra, 0)
	require.NoError(t, err)
	require.Zero(t, n)
	a.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: a.ID().Mesh.String()})
	_, err = add.Call(t.Context(), ra, 0)
	require.NoError(t, err, "a proc ignores its own death")
}

func TestCall_failsAtOnceWhenItsProcDies_DEL5(t *testing.T) {
	srv := bustest.Server(t)
	a, b, f := start(t, srv, "left"), start(t, srv, "right"), newForger(t, srv)
	ref := spawn(t, b)
	defer blocked(t, ref)()
	lost := watchUnreachable(t, a)
	pending := make(chan error, 1)
	go func() { pending <- second(add.Call(t.Context(), ref.Via(a), 1)) }()
	testkit.Until(t, "queued", func() bool { info, _ := b.Actor(ref.ID().Name); return info.Queued == 1 })
	f.publishEnd(t, b.ID(), "")
	err := testkit.Next(t, pending)
	require.ErrorIs(t, err, actor.ErrProcDead)
	require.ErrorContains(t, err, "the proc is gone: failed")
	require.False(t, asError(t, err).Undeliverable())
	require.ErrorIs(t, testkit.Next(t, lost), actor.ErrProcDead)
}

func TestCall_toAnUnknownProcFailsAtOnce_DEL5(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	a, b := start(t, srv, "left"), start(t, srv, "right")
	ref := spawn(t, b)
	nobody, err := subjects.NewHostID("nobody")
	require.NoError(t, err)
	_, err = add.Call(t.Context(), actor.RefOf[*Box](nobody.Proc().Actor("x")).Via(a), 1)
	require.ErrorIs(t, err, actor.ErrNoProc)
	require.ErrorContains(t, err, nobody.Proc().String())
	require.True(t, asError(t, err).Undeliverable())
	require.NoError(t, add.Send(t.Context(), actor.RefOf[*Box](nobody.Proc().Actor("x")).Via(a), 1))
	testkit.Until(t, "the post came back", func() bool { return a.Stats().Bounced == 1 })

	release := blocked(t, ref)
	pending := make(chan error, 1)
	go func() { pending <- second(add.Call(t.Context(), ref.Via(a), 1)) }()
	testkit.Until(t, "queued", func() bool { info, _ := b.Actor(ref.ID().Name); return info.Queued == 1 })
	a.Receive(2, hint(a, b.ID(), 77)) // about another message to the same proc
	require.Empty(t, pending, "delivered messages are not undeliverable")
	release()
	require.NoError(t, testkit.Next(t, pending))
}

// hint is the server's "no responders" about message n.
func hint(p *actor.Proc, to subjects.ProcID, n uint64) bus.Msg {
	return bus.Msg{
		Subject: p.Space().Hint(p.ID().Process(), strconv.FormatUint(n, 36)), NoResponders: true,
		HintFor: p.Space().Port(to.Actor("x").Port("add"), p.Sender()),
	}
}

func TestFollowMesh_acceptsEventsOnlyOnTheirSubject(t *testing.T) {
	srv := bustest.Server(t)
	a, b, f := start(t, srv, "left"), start(t, srv, "right"), newForger(t, srv)
	require.NoError(t, a.Members().FollowMesh(b.ID().Mesh, 1))
	victim := start(t, srv, "victim")
	data, err := json.Marshal(actor.Event{Kind: actor.KindProc, Status: "failed",
		Mesh: victim.ID().Mesh.String()})
	require.NoError(t, err)
	require.NoError(t, f.Control().Publish(f.space.Event(actor.KindProc, b.ID().Scope(), teller()), data))
	testkit.Until(t, "refused", func() bool { return a.Stats().Malformed == 1 })
	_, dead := a.Members().Down(victim.ID())
	require.False(t, dead)
	require.ErrorIs(t, a.Members().FollowMesh(subjects.MeshID{}, 1), actor.ErrInvalid)
}

func TestFollowMesh_concurrentCallersSubscribeOnce(t *testing.T) {
	srv := bustest.Server(t)
	a, b := start(t, srv, "left"), start(t, srv, "right")
	before := srv.NumSubs()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { require.NoError(t, a.Members().FollowMesh(b.ID().Mesh, 1)) })
	}
	wg.Wait()
	require.Equal(t, before+2, srv.NumSubs(), "to the words of its hosts, and of others")
}

func TestProc_remembersABoundedNumberOfDeadProcs(t *testing.T) {
	t.Parallel()
	p := alone(t)
	mesh, err := subjects.NewMeshID("many")
	require.NoError(t, err)
	for rank := range actor.MaxDown + 10 {
		p.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: mesh.String(), Rank: rank,
			StderrTail: []string{"x"}})
	}
	_, known := p.Members().Down(subjects.ProcID{Mesh: mesh, Rank: 9})
	require.False(t, known)
	e, known := p.Members().Down(subjects.ProcID{Mesh: mesh, Rank: 10})
	require.True(t, known)
	require.Empty(t, e.StderrTail)
}

func TestClose_leavesNoSubscription(t *testing.T) {
	srv := bustest.Server(t)
	f := newForger(t, srv)
	ctx := testkit.Soon(t)
	before := srv.NumSubs()
	a := start(t, srv, "left")
	require.NoError(t, a.Members().FollowMesh(a.ID().Mesh, 1))
	require.NoError(t, a.Close(ctx))
	require.NoError(t, a.Bus().Data().Flush(ctx))
	require.NoError(t, a.Bus().Control().Flush(ctx))
	require.NoError(t, f.Data().Flush(ctx))
	require.Equal(t, before, srv.NumSubs())
}

func TestProc_countsMalformedMessages(t *testing.T) {
	srv := bustest.Server(t)
	b, f := start(t, srv, "right"), newForger(t, srv)
	ref := spawn(t, b)
	to := ref.ID().Port("add")
	peer, err := subjects.NewHostID("peer")
	require.NoError(t, err)
	from := senderOf(peer.Proc())
	f.send(t, to, from, []byte{0})                   // no packet
	f.send(t, to, from, []byte{0, 9, 9, 0})          // of another version
	f.send(t, to, subjects.Anon(), message(1, 0, 1)) // a packet of no process
	control := f.space.Control(b.ID().Process(), from)
	for _, data := range [][]byte{nil, {0}, message(1, 0, 1), []byte("text")} {
		require.NoError(t, f.Control().Publish(control, data))
	}
	testkit.Until(t, "counted", func() bool { return b.Stats().Malformed == 7 })
	f.send(t, to, from, packet(1, 0, wire.Envelope{Kind: wire.Message, Reply: "no port", Body: []byte{1}}))
	testkit.Until(t, "counted", func() bool { return b.Stats().Malformed == 8 })
	f.send(t, to, from, packet(2, 1, wire.Envelope{Kind: wire.Failure}))
	f.send(t, to, from, packet(3, 2, wire.Envelope{Kind: wire.Cast}))
	testkit.Until(t, "late", func() bool { return b.Stats().Late == 1 && b.Stats().Undeliverable == 1 })
	n, err := add.Call(t.Context(), ref, 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
}

func FuzzReceive(f *testing.F) {
	srv := bustest.Server(f)
	p := start(f, srv, "alone")
	ref := spawn(f, p)
	peer, err := subjects.NewHostID("peer")
	require.NoError(f, err)
	from := senderOf(peer.Proc())
	valid := []string{
		p.Space().Port(ref.ID().Port("add"), from), p.Space().Control(p.ID().Process(), from),
		p.Space().Hint(p.ID().Process(), "1z"), p.Space().Event(actor.KindProc, peer.Proc().Scope(), teller()),
		p.Space().Frame(p.ID().Process(), from),
	}
	traced := packet(1, 0, wire.Envelope{Kind: wire.Message, Ext: bytes.Repeat([]byte{1}, 25), Body: []byte{1}})
	for where, subject := range valid {
		for _, data := range [][]byte{message(1, 0, 1), traced, {}, {0},
			[]byte(`{"kind":"proc","status":"failed"}`), []byte("7"), {0xa0}} {
			f.Add(where, subject, "reply", subject, data)
		}
	}
	f.Fuzz(func(t *testing.T, where int, subject, reply, about string, data []byte) {
		where = int(uint(where) % uint(len(valid)))
		for _, s := range []string{subject, valid[where]} {
			p.Receive(where, bus.Msg{Subject: s, Reply: reply, Data: data, NoResponders: where == 2, HintFor: about})
		}
		_, err := add.Call(t.Context(), ref, 1)
		require.NoError(t, err)
	})
}

func TestDeadLetters_returnToTheSender(t *testing.T) {
	a, b := two(t)
	ref := spawn(t, b).Via(a)
	require.NoError(t, absent.Send(t.Context(), ref, 1))
	require.NoError(t, add.Send(t.Context(), actor.RefOf[*Box](b.ID().Actor("nobody")).Via(a), 1))
	testkit.Until(t, "both came back",
		func() bool { return a.Stats().Bounced == 2 && b.Stats().Undeliverable == 2 })
	_, err := add.Call(t.Context(), ref, 1)
	require.NoError(t, err)
}

func TestSend_withoutAServerReportsUnavailable(t *testing.T) {
	srv, err := embed.Start(t.Context(), embed.Options{DontListen: true})
	require.NoError(t, err)
	b, err := bus.Open(t.Context(), bus.Options{Server: srv})
	require.NoError(t, err)
	id, err := subjects.NewHostID("alone")
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(), actor.Options{ID: id.Proc(), Bus: b})
	require.NoError(t, err)
	peer, err := subjects.NewHostID("peer")
	require.NoError(t, err)
	require.NoError(t, p.Members().FollowMesh(peer.Proc().Mesh, 1))
	require.NoError(t, b.Close(testkit.Soon(t)))
	began := time.Now()
	_, err = add.Call(t.Context(), actor.RefOf[*Box](peer.Proc().Actor("x")).Via(p), 1)
	require.ErrorIs(t, err, actor.ErrUnavailable)
	require.True(t, asError(t, err).Undeliverable())
	require.Less(t, time.Since(began), testkit.Patience)
	require.NoError(t, p.Close(testkit.Soon(t)))
	srv.Shutdown()
}
