package actor_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// tap receives the packets to a proc: those with many messages, and those with one.
type tap struct {
	bus  *bus.Bus
	mu   sync.Mutex
	seen map[subjects.Kind]int
	last bus.Msg
}

func newTap(t *testing.T, srv *embed.Server, of *actor.Proc) *tap {
	t.Helper()
	w := &tap{bus: bustest.Open(t, srv), seen: map[subjects.Kind]int{}}
	for kind, subject := range map[subjects.Kind]string{
		subjects.KindFrame: of.Space().FramesOf(of.ID().Process()), subjects.KindPort: of.Space().PortsOf(of.ID()),
	} {
		_, err := w.bus.Data().Subscribe(subject, func(m bus.Msg) {
			if h, _, err := wire.DecodeHead(m.Data); err != nil || h.Kind != wire.Data {
				return // such as a question how far the link is
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen[kind]++
			w.last = m
		})
		require.NoError(t, err)
	}
	return w
}

// packetCounts counts the packets so far.
func (w *tap) packetCounts(t *testing.T) (frames, alone int, last bus.Msg) {
	t.Helper()
	require.NoError(t, w.bus.Data().Flush(testkit.Soon(t)))
	done := make(chan struct{})
	w.bus.Data().AfterReceived(func() { close(done) })
	testkit.Next(t, done)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[subjects.KindFrame], w.seen[subjects.KindPort], w.last
}

// question is the last received message. Its receiver may have handled it before the server gave it
// to the tap.
func (w *tap) question(t *testing.T) (e wire.Envelope) {
	t.Helper()
	var m bus.Msg
	testkit.Until(t, "the tap has it, too", func() bool {
		_, _, m = w.packetCounts(t)
		return m.Data != nil
	})
	_, rest, err := wire.DecodeHead(m.Data)
	require.NoError(t, err)
	es := wire.NewEnvelopeReader(rest)
	_, ok := es.Next(&e)
	require.True(t, ok)
	return e
}

func TestSend_batchesABurstInOrder(t *testing.T) {
	const n = 10_000
	srv := bustest.Server(t)
	a, b := start(t, srv, "left", ledgers()), start(t, srv, "right", ledgers())
	w := newTap(t, srv, b)
	ref, book := newLedger(t, b, a, actor.Mailbox(actor.Unbounded))
	for i := range n {
		require.NoError(t, enter.Send(t.Context(), ref, entry{By: "me", N: i}))
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	frames, alone, _ := w.packetCounts(t)
	require.Less(t, frames+alone, n/5)
	require.NotZero(t, frames)
	testkit.Until(t, "all are handled", func() bool { return book.count() == n })
	book.inOrder(t)
}

func TestSend_singleMessageUsesItsPortsSubject(t *testing.T) {
	srv := bustest.Server(t)
	a, b := start(t, srv, "left"), start(t, srv, "right")
	w := newTap(t, srv, b)
	ref := spawn(t, b).Via(a)
	for i := range 5 {
		require.NoError(t, add.Send(t.Context(), ref, 1))
		require.NoError(t, a.Flush(testkit.Soon(t)))
		var last bus.Msg
		testkit.Until(t, "the tap has it, too", func() bool {
			var alone int
			_, alone, last = w.packetCounts(t)
			return alone == i+1
		})
		require.Equal(t, a.Space().Port(ref.ID().Port("add"), a.Sender()), last.Subject)
	}
}

func TestInfo_showsLinkPositionsPerPeer(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	a, b := start(t, srv, "left", ledgers()), start(t, srv, "right", ledgers())
	ref, _ := newLedger(t, b, a)
	require.Empty(t, a.Info().Peers)
	require.NoError(t, second(enter.Call(testkit.Soon(t), ref, entry{By: "me"})))
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.NoError(t, b.Flush(testkit.Soon(t)))
	for p, other := range map[*actor.Proc]*actor.Proc{a: b, b: a} {
		require.Len(t, p.Info().Peers, 1)
		peer := p.Info().Peers[0]
		require.Equal(t, other.ID().Process(), peer.Process)
		require.True(t, peer.Heard)
		require.EqualValues(t, 1, peer.Sent)
		require.EqualValues(t, 1, peer.Acked)
		require.EqualValues(t, 1, peer.Received)
		require.Zero(t, peer.InFlight+peer.Waiting)
		require.Positive(t, peer.Credit)
		require.Positive(t, peer.RTT)
		require.Empty(t, peer.StallReason)
		require.Empty(t, peer.DeadReason)
	}
	hear := deafen(t, b, a)
	for i := range 20 {
		require.NoError(t, enter.Send(t.Context(), ref, entry{By: "me", N: i + 1, Pad: make([]byte, 1<<20)}))
		if a.Info().Peers[0].Waiting > 1<<20 {
			break
		}
	}
	peer := a.Info().Peers[0]
	require.Less(t, peer.Acked, peer.Sent)
	require.Positive(t, peer.InFlight)
	hear()
	require.NoError(t, a.Flush(testkit.Soon(t)))
	a.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: b.ID().Mesh.String(),
		Reason: "struck by lightning"})
	require.Contains(t, a.Info().Peers[0].DeadReason, "struck by lightning")
	looked, err := b.InspectProc(testkit.Soon(t), b.ID())
	require.NoError(t, err)
	require.Len(t, looked.Peers, 1)
}

func TestInfo_showsWhichMessageALinkAwaits(t *testing.T) {
	srv := bustest.Server(t)
	b, f := start(t, srv, "right"), newForger(t, srv)
	ref := spawn(t, b)
	from := senderOf(newHost(t, "peer").Proc())
	f.send(t, ref.ID().Port("add"), from, message(3, 0, 1))
	f.send(t, ref.ID().Port("add"), from, message(9, 7, 4))
	testkit.Until(t, "it is known",
		func() bool { return len(b.Info().Peers) == 1 && b.Info().Peers[0].Gaps == 1 })
	require.Regexp(t, `^packets after 3 up to 7 are missing for .*; 1 later ones wait$`,
		b.Info().Peers[0].StallReason)
	f.send(t, ref.ID().Port("add"), from, message(5, 3, 2))
	testkit.Until(t, "it is asked on", func() bool { return b.Info().Peers[0].Received == 5 })
	require.Contains(t, b.Info().Peers[0].StallReason, "packets after 5 up to 7 are missing")
	f.send(t, ref.ID().Port("add"), from, message(7, 5, 3))
	testkit.Until(t, "all came", func() bool { return b.Info().Peers[0].Received == 9 })
	require.Empty(t, b.Info().Peers[0].StallReason)
	got, err := history.Call(t.Context(), ref, actor.None{})
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2, 3, 4}, got)
}

func TestErrDenied_namesTheDeniedSubject(t *testing.T) {
	shut := newHost(t, "shut")
	conf := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(conf, []byte(strings.ReplaceAll(`authorization { users = [
		{ user: bob, password: secret }
		{ user: alice, password: secret
		  permissions { publish: { deny: ["castnet.v1.default.p.PROC.>", "castnet.v1.default.f.PROC.0-0.>"] } } }
	] }`, "PROC", shut.String())), 0o600))
	srv := bustest.Server(t, func(o *embed.Options) { o.ConfigFile = conf })
	as := func(user string, id subjects.HostID) *actor.Proc {
		b := bustest.Open(t, srv, func(o *bus.Options) { o.User, o.Password = user, "secret" })
		return startOn(t, b, id.Proc(), link.Config{}, mailers())
	}
	a, b, c := as("alice", newHost(t, "left")), as("bob", shut), as("bob", newHost(t, "open"))
	there, open := spawn(t, b), spawn(t, c)
	_, err := add.Call(testkit.Soon(t), there.Via(a), 1)
	require.ErrorIs(t, err, actor.ErrDenied)
	require.ErrorContains(t, err, a.Space().Port(there.ID().Port("add"), a.Sender()))
	from, back := newMailer(t, a)
	sendMany(t, from, 1, there, nil)
	r := requireDeadLetters(t, 1, from, back)[0]
	require.ErrorIs(t, r.Reason, actor.ErrDenied)
	require.ErrorContains(t, r.Reason, "castnet.v1.default.")
	require.NotZero(t, a.Stats().Links.Denied)
	require.ErrorContains(t, r.Reason, shut.String())
	_, err = add.Call(testkit.Soon(t), open.Via(a), 1)
	require.NoError(t, err, "others are reached")
	n, err := add.Call(testkit.Soon(t), there.Via(c), 0)
	require.NoError(t, err)
	require.Zero(t, n)
}
