package link_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// letter is a message delivered to a node.
type letter struct {
	from, actor, port, body string
	ttl                     time.Duration
}

// node is a process with links only: it records their callbacks.
type node struct {
	*link.Links
	id    subjects.ProcessID
	bus   *bus.Bus
	space subjects.Space
	loses atomic.Pointer[func(bus.Msg) bool] // what does not reach it; nil: it all does

	mu        sync.Mutex
	refuses   func(letter) []byte // nil: it takes everything
	got       []letter
	fates     []link.Fate
	broken    []error
	cancelled []string
	urgent    []string
	malformed []string
	forgotten []subjects.ProcessID
	dead      sync.Map // of errors, by ProcessID
}

// newNode gives a test a node on a server.
func newNode(t testing.TB, srv *embed.Server, label string, cfg link.Config) *node {
	t.Helper()
	return nodeOn(t, bustest.Open(t, srv), newHost(t, label), cfg)
}

func newHost(t testing.TB, label string) subjects.HostID {
	t.Helper()
	host, err := subjects.NewHostID(label)
	require.NoError(t, err)
	return host
}

// senderOf is the sender of a process of an unknown user.
func senderOf(id subjects.ProcessID) subjects.Sender {
	return subjects.NewSender(subjects.UserPrincipal(subjects.Program, ""), id)
}

func nodeOn(t testing.TB, b *bus.Bus, host subjects.HostID, cfg link.Config) *node {
	t.Helper()
	n := &node{id: host.Proc().Process(), bus: b}
	n.Links = link.Open(link.Options{Self: n.id, Principal: subjects.UserPrincipal(subjects.Program, ""), Bus: b, Handler: n, Config: cfg})
	t.Cleanup(n.Close)
	for subject, c := range map[string]*bus.Conn{
		n.space.PortsOf(host.Proc()): b.Data(), n.space.FramesOf(n.id): b.Data(), n.space.HintsOf(n.id): b.Data(),
		n.space.ControlsOf(n.id): b.Control(),
	} {
		sub, err := c.Subscribe(subject, n.receive)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, sub.Unsubscribe()) })
	}
	return n
}

func (n *node) receive(m bus.Msg) {
	if loses := n.loses.Load(); loses != nil && (*loses)(m) {
		return
	}
	s, err := n.space.Parse(m.Subject)
	switch {
	case err != nil:
		panic(err) // its own subscription brought it
	case s.Kind == subjects.KindHint:
		n.ReceiveHint(m, s)
	case s.Kind == subjects.KindControl:
		n.ReceiveControl(m, s)
	default:
		n.Receive(m, s)
	}
}

func (n *node) Deliver(in *link.Inbound) (taken int, why []byte) {
	e := in.Envelope
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, came := range in.Bodies {
		l := letter{in.From.ID().String(), e.Actor, e.Port, string(came.Body(in.Data)), e.TTL}
		if n.refuses != nil {
			if why := n.refuses(l); why != nil {
				return i, why
			}
		}
		n.got = append(n.got, l)
	}
	return len(in.Bodies), nil
}

func (n *node) Undelivered(f link.Fate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fates = append(n.fates, f)
}

func (n *node) Broken(_ subjects.ProcessID, _ uint64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = append(n.broken, err)
}

func (n *node) Dead(id subjects.ProcessID) error {
	if why, dead := n.dead.Load(id); dead {
		return why.(error)
	}
	return nil
}

// die marks a process dead.
func (n *node) die(id subjects.ProcessID, why error) {
	n.dead.LoadOrStore(id, why)
	n.MarkDead(id, why)
}

func (n *node) Forgotten(id subjects.ProcessID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forgotten = append(n.forgotten, id)
}

func (n *node) Urgent(from *link.Peer, _ subjects.Sender, e *wire.Envelope) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.urgent = append(n.urgent, from.ID().String()+" "+e.Port+" "+string(e.Body))
}

func (n *node) Cancel(from subjects.ProcessID, replies []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, reply := range replies {
		n.cancelled = append(n.cancelled, from.String()+" "+reply)
	}
}

func (n *node) Malformed(subject string, size int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.malformed = append(n.malformed, fmt.Sprintf("%s: %d: %v", subject, size, err))
}

// letters are the messages delivered to the node so far.
func (n *node) letters() []letter {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]letter(nil), n.got...)
}

// await waits until the node has n letters.
func (n *node) await(t testing.TB, count int) []letter {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("%d letters", count), func() bool { return len(n.letters()) >= count })
	return n.letters()
}

func (n *node) allFates() []link.Fate {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]link.Fate(nil), n.fates...)
}

func (n *node) complaints() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.malformed...)
}

// to is an actor of a node.
func (n *node) to(actor string) subjects.PortID { return n.id.Proc().Actor(actor).Port("in") }

// say is a message of one line.
func say(text string) *wire.Envelope {
	return &wire.Envelope{Kind: wire.Message, Sender: "s", Body: []byte(text)}
}

func TestFlush_returnsWhenMailboxesHoldAllMessages(t *testing.T) {
	const each = 200
	srv := bustest.Server(t)
	a, b, c := newNode(t, srv, "a", link.Config{}), newNode(t, srv, "b", link.Config{}),
		newNode(t, srv, "c", link.Config{})
	for round := range 10 {
		for i := range each {
			for _, to := range []*node{b, c} {
				require.NoError(t, a.Send(a.Target(to.to("x")), say(fmt.Sprint(i)), link.Mark{}, 0))
			}
		}
		require.NoError(t, a.Flush(testkit.Soon(t)))
		require.Len(t, b.letters(), (round+1)*each)
		require.Len(t, c.letters(), (round+1)*each)
	}
	require.Empty(t, a.allFates())
}

func TestFlush_waitsForRefusals(t *testing.T) {
	srv := bustest.Server(t)
	a, b := newNode(t, srv, "a", link.Config{}), newNode(t, srv, "b", link.Config{})
	b.refuses = func(l letter) []byte {
		if l.body[0] == 'n' {
			return []byte("no")
		}
		return nil
	}
	to := a.Target(b.to("x"))
	for _, text := range []string{"y0", "n1", "n2", "y3", "n4"} {
		require.NoError(t, a.Send(to, say(text), link.Mark{Type: text}, 0))
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.Len(t, b.letters(), 2)
	testkit.Until(t, "three came back", func() bool { return len(a.allFates()) == 3 })
	for i, want := range []string{"n1", "n2", "n4"} {
		f := a.allFates()[i]
		require.Equal(t, want, f.Mark.Type, "in the order they were sent")
		require.Equal(t, []any{link.Refused, "no", true, 1}, []any{f.Reason, string(f.Why), f.Known, f.Count})
	}
}

func TestFlush_endsWithItsContextAndReportsWhy(t *testing.T) {
	srv := bustest.Server(t)
	a, raw := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	require.NoError(t, a.Flush(testkit.Soon(t)), "nothing was sent")
	require.NoError(t, a.Send(a.Target(raw.to("x")), say("hello"), link.Mark{}, 0))
	why := fmt.Errorf("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	flushed := make(chan error, 1)
	go func() { flushed <- a.Flush(ctx) }()
	testkit.Next(t, raw.data)
	require.Empty(t, flushed)
	cancel(why)
	require.ErrorIs(t, testkit.Next(t, flushed), why)
}

func TestClose_endsAFlushAndGivesEveryMessageAFate(t *testing.T) {
	srv := bustest.Server(t)
	a, raw := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	to := a.Target(raw.to("x"))
	for i := range 1000 { // some are on their way, for others there is no credit
		require.NoError(t, a.Send(to, &wire.Envelope{Kind: wire.Message, Sender: "s", Body: make([]byte, 100)},
			link.Mark{Type: fmt.Sprint(i)}, 0))
	}
	testkit.Next(t, raw.data)
	a.Close()
	seen := map[string]bool{}
	for _, f := range a.allFates() {
		require.Equal(t, link.LinksClosed, f.Reason)
		require.Equal(t, 1, f.Count)
		require.False(t, seen[f.Mark.Type], "one fate each")
		seen[f.Mark.Type] = true
	}
	require.Len(t, seen, 1000)
	require.ErrorContains(t, a.Send(to, say("late"), link.Mark{}, 0), "has closed its links")
	_, err := a.Cast(&link.Cast{Envelope: &wire.Envelope{Kind: wire.Cast}})
	require.ErrorContains(t, err, "has closed its links")
	a.Close() // twice is once
	require.Len(t, a.allFates(), 1000)
}

func TestSendWait_subtractsTheWaitFromTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, b := newNode(t, srv, "a", oneInFlight), newNode(t, srv, "b", link.Config{})
		deaf := func(bus.Msg) bool { return true }
		b.loses.Store(&deaf)
		to := a.Target(b.to("x"))
		e := func() *wire.Envelope {
			return &wire.Envelope{Kind: wire.Message, Sender: "s", TTL: time.Hour, Body: make([]byte, 900)}
		}
		for range 2 { // one in flight, one in the queue
			require.NoError(t, a.SendWait(t.Context(), to, e(), link.Mark{}, link.Never))
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, a.SendWait(ctx, to, e(), link.Mark{}, link.Never), "are queued for")
		sent := make(chan error, 1)
		go func() { sent <- a.SendWait(t.Context(), to, e(), link.Mark{}, link.Never) }()
		time.Sleep(30 * time.Second) // virtual
		require.Empty(t, sent)
		b.loses.Store(nil)
		require.NoError(t, <-sent)
		require.NoError(t, a.Flush(t.Context()))
		require.InDelta(t, time.Hour-30*time.Second, b.letters()[2].ttl, float64(3*time.Second))
	})
}

// oneInFlight has room for one message in flight and one in the queue.
var oneInFlight = link.Config{InitialWindow: 1, Outbox: 1000} // read only

func TestSendWait_endsWhenTheProcessDiesOrLinksClose(t *testing.T) {
	srv := bustest.Server(t)
	a, b := newNode(t, srv, "a", oneInFlight), newNode(t, srv, "b", link.Config{})
	c := newNode(t, srv, "c", link.Config{})
	deaf := func(bus.Msg) bool { return true }
	b.loses.Store(&deaf)
	c.loses.Store(&deaf)
	e := func() *wire.Envelope {
		return &wire.Envelope{Kind: wire.Message, Sender: "s", Body: make([]byte, 900)}
	}
	results := map[*node]chan error{b: make(chan error, 4), c: make(chan error, 4)}
	for to, result := range results {
		target := a.Target(to.to("x"))
		for range 2 { // one in flight, one in the queue
			testkit.Until(t, "the first has left", func() bool {
				return a.Send(target, e(), link.Mark{}, 0) == nil
			})
		}
		for range cap(result) {
			go func() { result <- a.SendWait(testkit.Soon(t), target, e(), link.Mark{}, 0) }()
		}
	}
	a.die(b.id, fmt.Errorf("struck by lightning"))
	for range cap(results[b]) {
		require.ErrorContains(t, testkit.Next(t, results[b]), "struck by lightning")
	}
	require.Empty(t, results[c])
	a.Close()
	for range cap(results[c]) {
		require.ErrorContains(t, testkit.Next(t, results[c]), "has closed its links")
	}
}

func TestCancel_reachesTheProcessOnce(t *testing.T) {
	srv := bustest.Server(t)
	a, b := newNode(t, srv, "a", link.Config{}), newNode(t, srv, "b", link.Config{})
	a.Links.Cancel(a.Target(b.to("x")).Peer, "port")
	testkit.Until(t, "it came", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.cancelled) == 1 && b.cancelled[0] == a.id.String()+" port"
	})
}

func TestAt_isZeroForTheZeroTime(t *testing.T) {
	a := newNode(t, bustest.Server(t), "a", link.Config{})
	require.Zero(t, a.At(time.Time{}))
	require.EqualValues(t, 1, a.At(time.Unix(0, 0)), "the past is not never")
	require.Greater(t, a.At(time.Now().Add(time.Second)), a.At(time.Now()))
}

func TestClose_notifiesKnownPeers_LINK13(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	r.publishTo(t, a, packet(wire.Head{Seq: 1}, texts("hello")...))
	a.await(t, 1)
	a.Close()
	for {
		h, _, err := wire.DecodeHead(testkit.Next(t, r.data).Data)
		require.NoError(t, err)
		switch {
		case h.Kind != wire.Goodbye:
			continue
		case h.Ack != nil:
			require.EqualValues(t, 1, h.Ack.Acked, "and how far it is")
		default: // it has said so before
			for r.awaitControl(t, wire.LinkState).(*wire.LinkStateBody).Progress.Acked != 1 {
			}
		}
		return
	}
}

// The data connection receives nothing of its own.
func TestControl_usesItsOwnConnection(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	heard := make(chan wire.PacketKind, 100)
	_, err := a.bus.Data().Subscribe(a.space.ControlsOf(r.id), func(m bus.Msg) {
		kind, _, err := wire.DecodeControl(m.Data)
		require.NoError(t, err)
		heard <- kind
	})
	require.NoError(t, err)
	r.publishTo(t, a, packet(wire.Head{Seq: 1}, texts("x")...))
	require.Equal(t, wire.LinkState, testkit.Next(t, heard))
	a.Links.Cancel(a.Target(r.to("x")).Peer, "reply")
	require.Equal(t, wire.Cancel, testkit.Next(t, heard))
}
