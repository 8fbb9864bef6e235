package link_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// raw is a process without automatic answers: the test publishes for it.
type raw struct {
	id            subjects.ProcessID
	bus           *bus.Bus
	space         subjects.Space
	data, control chan bus.Msg
}

func newRaw(t testing.TB, srv *embed.Server, label string) *raw {
	t.Helper()
	host := newHost(t, label)
	r := &raw{
		id: host.Proc().Process(), bus: bustest.Open(t, srv),
		data: make(chan bus.Msg, 1<<16), control: make(chan bus.Msg, 1<<16),
	}
	for subject, ch := range map[string]chan bus.Msg{
		r.space.PortsOf(host.Proc()): r.data, r.space.FramesOf(r.id): r.data, r.space.ControlsOf(r.id): r.control,
	} {
		_, err := r.bus.Data().Subscribe(subject, func(m bus.Msg) { ch <- m })
		require.NoError(t, err)
	}
	return r
}

func (r *raw) to(actor string) subjects.PortID { return r.id.Proc().Actor(actor).Port("in") }

// publishTo publishes a packet for a node, as a process.
func (r *raw) publishTo(t testing.TB, to *node, data []byte) {
	t.Helper()
	require.NoError(t, r.bus.Data().Publish(r.space.Frame(to.id, senderOf(r.id)), data))
}

// sendControl publishes a control packet for a node, on the connection that keeps its order with
// the others.
func (r *raw) sendControl(t testing.TB, to *node, kind wire.PacketKind, body any) {
	t.Helper()
	data, err := wire.AppendControl(nil, kind, body)
	require.NoError(t, err)
	require.NoError(t, r.bus.Data().Publish(r.space.Control(to.id, senderOf(r.id)), data))
}

// awaitControl waits for a control packet of a kind.
func (r *raw) awaitControl(t testing.TB, kind wire.PacketKind) any {
	t.Helper()
	for {
		got, body, err := wire.DecodeControl(testkit.Next(t, r.control).Data)
		require.NoError(t, err)
		if got == kind {
			return body
		}
	}
}

// packetOf waits for a packet with messages and reads it.
func (r *raw) packetOf(t testing.TB) (m bus.Msg, h wire.Head, bodies []string) {
	t.Helper()
	for {
		m = testkit.Next(t, r.data)
		h, rest, err := wire.DecodeHead(m.Data)
		require.NoError(t, err)
		if h.Kind != wire.Data {
			continue
		}
		es, e := wire.NewEnvelopeReader(rest), wire.Envelope{}
		for _, ok := es.Next(&e); ok; _, ok = es.Next(&e) {
			bodies = append(bodies, string(e.Body))
		}
		require.NoError(t, es.Err())
		return m, h, bodies
	}
}

func TestSend_singleMessageUsesItsPortsSubject(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	require.NoError(t, a.Send(a.Target(r.to("x")), say("hello"), link.Mark{}, 0))
	m, h, bodies := r.packetOf(t)
	require.Equal(t, a.space.Port(r.to("x"), senderOf(a.id)), m.Subject)
	require.Equal(t, []string{"hello"}, bodies)
	require.Zero(t, h.PrevSeq, "it opens the link")
	require.NoError(t, a.Send(a.UnnamedTarget(r.to("x")), say("again"), link.Mark{}, 0))
	m, _, _ = r.packetOf(t)
	require.Equal(t, a.space.Frame(r.id, senderOf(a.id)), m.Subject, "its subject is not worth finding out")
}

func TestSend_batchesABurstInOrder(t *testing.T) {
	const n = 10_000
	srv := bustest.Server(t)
	a, b, tap := newNode(t, srv, "a", link.Config{}), newNode(t, srv, "b", link.Config{}), bustest.Open(t, srv)
	packets := make(chan bus.Msg, n)
	for _, subject := range []string{a.space.FramesOf(b.id), a.space.PortsOf(b.id.Proc())} {
		_, err := tap.Data().Subscribe(subject, func(m bus.Msg) { packets <- m })
		require.NoError(t, err)
	}
	to := a.Target(b.to("x"))
	for i := range n {
		require.NoError(t, a.Send(to, say(strconv.Itoa(i)), link.Mark{}, 0))
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	for i, l := range b.letters() {
		require.Equal(t, strconv.Itoa(i), l.body)
	}
	require.Len(t, b.letters(), n)
	require.NoError(t, tap.Data().Flush(testkit.Soon(t)))
	require.Less(t, len(packets), n/10)
}

func TestProbe_stopsAfterAnAcknowledgement(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	to := a.Target(r.to("x"))
	require.NoError(t, a.Send(to, say("anybody there?"), link.Mark{}, 0))
	m, h, _ := r.packetOf(t)
	require.Equal(t, a.space.Hint(a.id, strconv.FormatUint(h.Seq, 36)), m.Reply)
	r.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: h.Seq, ReceivedBytes: 10,
		Window: 1 << 20}})
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.NoError(t, a.Send(to, say("good"), link.Mark{}, 0))
	m, next, _ := r.packetOf(t)
	require.Empty(t, m.Reply)
	require.Equal(t, h.Seq, next.PrevSeq)
}

func TestSend_toAnAbsentProcessReturns(t *testing.T) {
	srv := bustest.Server(t)
	a := newNode(t, srv, "a", link.Config{NoResponderGrace: 50 * time.Millisecond})
	to := a.Target(newHost(t, "nobody").Proc().Actor("x").Port("in"))
	for i := range 100 {
		require.NoError(t, a.Send(to, say("hello"), link.Mark{Type: strconv.Itoa(i)}, 0))
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	testkit.Until(t, "all have a fate", func() bool { return len(a.allFates()) == 100 })
	for i, f := range a.allFates() {
		require.Equal(t, []any{link.NoProcess, true, strconv.Itoa(i)}, []any{f.Reason, f.Known, f.Mark.Type})
	}
}

func TestPublish_deniedPublishResetsTheLinkAndNamesTheSubject(t *testing.T) {
	open, shut := newHost(t, "open"), newHost(t, "shut")
	conf := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, `authorization { users = [
		{ user: bob, password: secret }
		{ user: alice, password: secret
		  permissions { publish: { deny: ["castnet.v1.default.p.%s.>", "castnet.v1.default.f.%s.>"] } } }
	] }`, shut, shut), 0o600))
	srv := bustest.Server(t, func(o *embed.Options) { o.ConfigFile = conf })
	as := func(user string, host subjects.HostID) *node {
		b := bustest.Open(t, srv, func(o *bus.Options) { o.User, o.Password = user, "secret" })
		return nodeOn(t, b, host, link.Config{})
	}
	a, b, c := as("alice", newHost(t, "a")), as("bob", open), as("bob", shut)
	require.NoError(t, a.Send(a.Target(c.to("x")), say("alone"), link.Mark{Type: "alone"}, 0))
	testkit.Until(t, "it has a fate", func() bool { return len(a.allFates()) == 1 })
	f := a.allFates()[0]
	require.Equal(t, []any{link.Denied, "alone"}, []any{f.Reason, f.Mark.Type})
	require.Contains(t, f.Text, a.space.Port(c.to("x"), senderOf(a.id)))
	require.NoError(t, a.Send(a.UnnamedTarget(c.to("x")), say("among others"), link.Mark{}, 0))
	testkit.Until(t, "it has a fate", func() bool { return len(a.allFates()) == 2 })
	require.Contains(t, a.allFates()[1].Text, a.space.Frame(c.id, senderOf(a.id)))
	require.NoError(t, a.Send(a.Target(b.to("x")), say("others hear us"), link.Mark{}, 0))
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.Len(t, b.letters(), 1)
	require.Empty(t, c.letters())
}

// listen starts a server behind an address.
func listen(t testing.TB, at *bustest.Address, o embed.Options) *embed.Server {
	t.Helper()
	srv, err := embed.Start(testkit.Soon(t), o)
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	at.Serve(srv)
	return srv
}

// dial connects to an address over a socket.
func dial(t testing.TB, at *bustest.Address) *bus.Bus {
	t.Helper()
	return bustest.Open(t, nil, func(o *bus.Options) { o.Server, o.URL = nil, at.URL() })
}

func TestSend_withoutAServerArrivesAfterReconnect(t *testing.T) {
	at := bustest.NewAddress(t)
	srv := listen(t, at, embed.Options{})
	a, b := nodeOn(t, dial(t, at), newHost(t, "a"), link.Config{}),
		nodeOn(t, dial(t, at), newHost(t, "b"), link.Config{})
	to := a.Target(b.to("x"))
	require.NoError(t, a.Send(to, say("0"), link.Mark{}, 0))
	require.NoError(t, a.Flush(testkit.Soon(t)))
	at.Stop(srv)
	testkit.Until(t, "it is known", func() bool { return a.bus.Data().URL() == "" })
	for i := 1; i <= 100; i++ {
		require.NoError(t, a.Send(to, say(strconv.Itoa(i)), link.Mark{}, 0))
	}
	flushed := make(chan error, 1)
	go func() { flushed <- a.Flush(testkit.Soon(t)) }()
	require.Len(t, b.letters(), 1)
	listen(t, at, embed.Options{})
	require.NoError(t, testkit.Next(t, flushed))
	for i, l := range b.letters() {
		require.Equal(t, strconv.Itoa(i), l.body)
	}
	require.Len(t, b.letters(), 101)
	require.Empty(t, a.allFates())
}

func TestSend_splitsPacketsForASmallerServerLimit(t *testing.T) {
	const n = 40
	at := bustest.NewAddress(t)
	srv := listen(t, at, embed.Options{})
	a, b := nodeOn(t, dial(t, at), newHost(t, "a"), link.Config{}),
		nodeOn(t, dial(t, at), newHost(t, "b"), link.Config{})
	to := a.Target(b.to("x"))
	require.NoError(t, a.Send(to, say("open"), link.Mark{}, 0))
	require.NoError(t, a.Flush(testkit.Soon(t)))
	var lost atomic.Int32
	lose := func(bus.Msg) bool { return lost.Add(1) > 0 }
	b.loses.Store(&lose)
	body := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 50_000) }
	for i := range n {
		require.NoError(t, a.Send(to, say(body(i)), link.Mark{}, 0))
	}
	testkit.Until(t, "all are lost", func() bool { return lost.Load() >= n })
	at.Stop(srv)
	listen(t, at, embed.Options{MaxPayload: 8 << 10})
	b.loses.Store(nil)
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.NotZero(t, a.Stats().Retransmitted)
	letters := b.letters()[1:]
	require.Len(t, letters, n)
	for i, l := range letters {
		require.Equal(t, body(i), l.body)
	}
	require.Empty(t, a.allFates())
	require.Empty(t, a.complaints())
	require.Empty(t, b.complaints())
}

func TestLink_isSilentWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, b := newNode(t, srv, "a", link.Config{}), newNode(t, srv, "b", link.Config{})
		require.NoError(t, a.Send(a.Target(b.to("x")), say("hello"), link.Mark{}, 0))
		require.NoError(t, a.Flush(t.Context()))
		time.Sleep(time.Second) // virtual
		tap := bustest.Open(t, srv)
		var heard []string
		_, err := tap.Data().Subscribe(a.space.Root()+".>", func(m bus.Msg) { heard = append(heard, m.Subject) })
		require.NoError(t, err)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, heard)
		require.NoError(t, a.Send(a.Target(b.to("x")), say("still there"), link.Mark{}, 0))
		require.NoError(t, a.Flush(t.Context()))
		require.Len(t, b.letters(), 2)
	})
}

func TestResend_lostSingleMessageIsResentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, b := newNode(t, srv, "a", link.Config{}), newNode(t, srv, "b", link.Config{})
		to := a.Target(b.to("x"))
		require.NoError(t, a.Send(to, say("0"), link.Mark{}, 0))
		require.NoError(t, a.Flush(t.Context()))
		time.Sleep(time.Minute) // virtual
		var lost atomic.Bool
		lose := func(bus.Msg) bool { return !lost.Swap(true) }
		b.loses.Store(&lose)
		began := time.Now()
		require.NoError(t, a.Send(to, say("1"), link.Mark{}, 0))
		require.NoError(t, a.Flush(t.Context()))
		require.Less(t, time.Since(began), time.Second, "it is missed long before its deadline")
		require.Equal(t, []string{"0", "1"}, bodies(b.letters()))
		require.Empty(t, a.allFates())
	})
}

func TestChunks_othersOvertakeALargeMessageButFollowersDoNot_LINK9(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{ChunkSize: 4 << 10, ChunksInFlight: 2}), newRaw(t, srv, "raw")
	from := func(sender string, size int) *wire.Envelope {
		return &wire.Envelope{Kind: wire.Message, Sender: sender, Body: make([]byte, size)}
	}
	x, y := a.Target(r.to("x")), a.Target(r.to("y"))
	for _, m := range []struct {
		to     *link.Target
		sender string
		size   int
	}{{x, "s", 100_000}, {x, "s", 1}, {x, "other", 2}, {y, "s", 3}, {x, "s", 4}} {
		require.NoError(t, a.Send(m.to, from(m.sender, m.size), link.Mark{}, 0))
	}
	var order []int // sizes as they came; 0 is a first part, -1 the last
	parts := 0
	taken := uint64(0)
	for len(order) == 0 || order[len(order)-1] != 4 {
		h, rest, err := wire.DecodeHead(testkit.Next(t, r.data).Data)
		require.NoError(t, err)
		if h.Kind != wire.Data {
			continue
		}
		es, e := wire.NewEnvelopeReader(rest), wire.Envelope{}
		for _, ok := es.Next(&e); ok; _, ok = es.Next(&e) {
			if e.Kind != wire.Chunk {
				order = append(order, len(e.Body))
				continue
			}
			of, err := wire.DecodeChunk(e.Ext, len(e.Body))
			require.NoError(t, err)
			parts++
			if parts == 1 {
				order = append(order, 0)
			} else if of.Offset+len(e.Body) == of.Total {
				order = append(order, -1)
			}
		}
		taken += uint64(len(rest))
		r.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: h.Seq, ReceivedBytes: taken,
			Window: 1 << 20}})
	}
	require.Equal(t, []int{0, 2, 3, -1, 1, 4}, order)
}
