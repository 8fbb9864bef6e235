package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// hostileTick is the least time between two messages that are not late.
	hostileTick = time.Millisecond
	// idleTime is as long as a volley lasts.
	idleTime = 6 * time.Second
	// strangers are the processes that the messages come from. A plain client has a limit of its own.
	strangers = 64
	// hostileMemory is several times what hostd should grow by, 64 MiB.
	hostileMemory = 256 << 20
)

// volley is a number of messages with bodies of about one size, at an even rate a second.
type volley struct {
	name                 string
	bodies               func(size int) [][]byte
	size, messages, rate int
}

// volleys are 10,000 messages a second, and 50 that are near the server's limit. Honest messages at the
// same rate are the measure for the first.
var volleys = []volley{
	{"4 KiB honest bodies", honestBodies, 4 << 10, 60_000, 10_000},
	{"4 KiB bodies", hostileBodies, 4 << 10, 60_000, 10_000},
	{"900 KiB bodies", hostileBodies, 900 << 10, 300, 50},
}

// honestBodies are one request.
func honestBodies(size int) [][]byte {
	body, err := wire.Marshal(agent.GetRequest{ID: strings.Repeat("x", size)})
	if err != nil { // a text: cannot be
		panic(err)
	}
	return [][]byte{body}
}

// hostileBodies claim lengths, nest, repeat keys, and use what decoders refuse. Each has about a size.
func hostileBodies(size int) (all [][]byte) {
	huge := "\xff\xff\xff\xff\xff\xff\xff\xff"
	repeat := func(head, unit, tail string) {
		all = append(all, []byte(head+strings.Repeat(unit, size/len(unit))+tail))
	}
	repeat("", "\x81", "\x00")                         // lists in lists
	repeat("", "\xa1\x01", "\x00")                     // maps in maps
	repeat("", "\xc1", "\x00")                         // tags in tags
	repeat("\x9b"+huge, "\x00", "")                    // a list of 2^64-1
	repeat("\xbb"+huge, "\x01\x00", "")                // a map
	repeat("\x5b"+huge, "\x00", "")                    // bytes
	repeat("\x7b\x7f"+huge[1:], "a", "")               // text
	repeat("\x9a\xff\xff\xff\xff", "\xa0", "")         // a list of 2^32-1
	repeat("\xb9\xff\xff", "\x01\x00", "")             // one key again and again
	repeat("\x9f", "\x9f", "")                         // lists without an end
	repeat("\xbf", "\x61a\xa0", "\xff")                // a map without a length
	repeat("\xa1\x01\x9a\x00\x01\x00\x00", "\xa0", "") // empty maps in a field
	repeat("\xa1\x01\xc2\x59\xff\xff", "\xff", "")     // a large integer
	repeat("\xa1\x01\x79\xff\xff", "\xff", "")         // no UTF-8
	repeat("", "[", "")                                // JSON
	repeat("", `{"id":`, "")
	repeat(`{"id":"`, `\u0000`, `"}`)
	repeat(`{"id":`, "9", "}")
	repeat(`{`, `"id":"a",`, `"id":1e999}`)
	return all
}

// stranger is a process that does not exist, and its messages so far.
type stranger struct {
	id   subjects.ProcID
	self subjects.Sender
	sent uint64 // on its link
}

// attack is a connection with the token of a hostd, and its strangers.
type attack struct {
	conn      *bus.Conn
	space     subjects.Space
	host      subjects.HostID
	strangers []*stranger
	answers   atomic.Int64
}

// newAttack connects to the server of a machine.
func newAttack(t *testing.T, m *machine) *attack {
	t.Helper()
	client := m.connect()
	_, host := m.host()
	b := m.openBus(t.Context(), "stranger")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = b.Close(ctx) // the server may be gone
	})
	a := &attack{conn: b.Data(), space: client.Space(), host: host}
	for range strangers {
		id, err := subjects.NewHostID("stranger")
		require.NoError(t, err)
		self := subjects.NewSender(subjects.Program.Principal("stranger"), id.Proc().Process())
		_, err = b.Control().Subscribe(a.space.Replies(self), func(bus.Msg) { a.answers.Add(1) })
		require.NoError(t, err)
		a.strangers = append(a.strangers, &stranger{id: id.Proc(), self: self})
	}
	return a
}

// messages are all ways to bring a body to hostd: as a plain client, and as a process with links.
func (a *attack) messages(from *stranger, body []byte) []bus.Msg {
	process := a.host.Proc().Process()
	get := a.host.Proc().Actor(agent.Name).Port("get")
	reply := a.space.Reply(from.self, "x")
	from.sent++
	head := wire.AppendHead(nil, wire.Head{Kind: wire.Data, Seq: from.sent, PrevSeq: from.sent - 1})
	envelope := wire.Envelope{Kind: wire.Message, Actor: agent.Name, Port: "get", Sender: "x", Body: body}
	all := []bus.Msg{
		{Subject: a.space.Port(get, from.self), Reply: reply, Data: body},
		{Subject: a.space.HostRead(a.host.String(), "get", from.self), Reply: reply, Data: body},
		{Subject: a.space.HostWrite(a.host, "create", from.self), Reply: reply, Data: body},
		{Subject: a.space.Heartbeat("hosts", from.self), Data: body},
		{Subject: a.space.Frame(process, from.self), Data: envelope.Append(head, false)},
		{Subject: a.space.Frame(process, from.self), Data: append(slices.Clip(head), body...)},
		{Subject: a.space.Frame(process, from.self), Data: wire.AppendFragment(
			wire.AppendHead(nil, wire.Head{Kind: wire.Fragment, Seq: from.sent + 1, PrevSeq: from.sent}),
			wire.FragmentHead{Total: 64 << 20}, body)},
	}
	for _, kind := range []wire.PacketKind{wire.LinkState, wire.ConfirmRefusals, wire.FateQuery, wire.Cancel, wire.Urgent} {
		all = append(all, bus.Msg{Subject: a.space.Control(process, from.self),
			Data: append(wire.AppendHead(nil, wire.Head{Kind: kind}), body...)})
	}
	return all
}

// run sends the messages of a volley at an even rate.
func (a *attack) run(ctx context.Context, v volley) error {
	bodies := v.bodies(v.size)
	tick := time.NewTicker(hostileTick)
	defer tick.Stop()
	began := time.Now()
	var waiting []bus.Msg
	for n, sets := 0, 0; n < v.messages; n++ {
		for due := began.Add(time.Duration(n) * time.Second / time.Duration(v.rate)); time.Now().Before(due); {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if len(waiting) == 0 {
			waiting = a.messages(a.strangers[sets%len(a.strangers)], bodies[sets%len(bodies)])
			sets++
		}
		if err := a.conn.PublishMsg(waiting[0]); err != nil {
			return err
		}
		waiting = waiting[1:]
	}
	return a.conn.Flush(ctx)
}

// asks calls the host agent until it is over, and records the time of each call. A host agent whose
// mailbox is full refuses a call at once.
func (f *figures) asks(m *machine, name string, over <-chan error) error {
	m.Helper()
	host, _ := m.host()
	for {
		began := time.Now()
		ctx, cancel := context.WithTimeout(m.Context(), patience)
		_, err := agent.Ping.Call(ctx, host, actor.None{})
		cancel()
		if errors.Is(err, actor.ErrMailboxFull) {
			f.count(name+" refused", 1)
		} else {
			require.NoError(m, err)
			f.sample(name+" us", float64(time.Since(began).Microseconds()))
		}
		select {
		case err := <-over:
			return err
		default:
		}
	}
}

// S5. The messages come from a client that the server permits everything. The memory of hostd is
// bounded, no connection breaks, and hostd answers others meanwhile.
func TestS05_hostileBytesCostHostdLittle(t *testing.T) {
	program := buildHostd(t, "")
	try(t, fault{"S5", 1, seldom}, func(t *testing.T, _ uint64, f *figures) {
		m := newMachine(t, program)
		m.start()
		a := newAttack(t, m)
		idle := make(chan error)
		time.AfterFunc(idleTime, func() { close(idle) })
		require.NoError(t, f.asks(m, "idle ask", idle))
		before, _, err := memoryOf(m.hostd.Process.Pid)
		require.NoError(t, err)
		f.sample("idle RSS MiB", float64(before)/(1<<20))
		forgetPeak := fmt.Sprintf("/proc/%d/clear_refs", m.hostd.Process.Pid)
		for _, v := range volleys {
			require.NoError(t, os.WriteFile(forgetPeak, []byte("5"), 0))
			over := make(chan error, 1)
			go func() { over <- a.run(t.Context(), v) }()
			require.NoError(t, f.asks(m, v.name+": ask", over))
			_, peak, err := memoryOf(m.hostd.Process.Pid)
			require.NoError(t, err)
			f.count(v.name, v.messages)
			f.sample(v.name+": grew MiB", float64(peak-before)/(1<<20))
			require.Less(t, peak-before, hostileMemory)
		}
		f.must("answered", int(a.answers.Load()))
		m.shutdown()
	})
}
