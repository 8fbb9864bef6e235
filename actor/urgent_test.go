package actor_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Guard is an actor with an urgent endpoint. It records the connection of each message.
type Guard struct {
	mu      sync.Mutex
	seen    []bool
	refuses bool // what comes by the control connection
	defers  bool // its answers
}

var (
	guard  = actor.NewType[*Guard, *Guard]("guard")
	halt   = actor.NewEndpoint[*Guard, string, bool]("halt")
	patrol = actor.NewEndpoint[*Guard, string, bool]("patrol")
)

func (g *Guard) take(ctx *actor.Context, _ string) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, ctx.OnControl())
	if ctx.OnControl() && g.refuses {
		return false, errors.New("not now")
	}
	urgent := ctx.OnControl()
	if g.defers {
		answer := actor.Defer[bool](ctx)
		ctx.Go(func(context.Context) func(*actor.Context) {
			return func(*actor.Context) { answer.Reply(urgent, nil) }
		})
	}
	return urgent, nil
}

func (g *Guard) onControl() []bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]bool(nil), g.seen...)
}

func guards() actor.Def {
	return guard.Define(func(_ *actor.Context, g *Guard) (*Guard, error) { return g, nil },
		halt.Handle((*Guard).take).Urgent(), patrol.Handle((*Guard).take))
}

// narrow is a proc with little room for data on the way to others.
func narrow(t *testing.T, srv *embed.Server, label string) *actor.Proc {
	t.Helper()
	return startOn(t, bustest.Open(t, srv), newHost(t, label).Proc(),
		link.Config{Outbox: 64 << 10, InitialWindow: 8 << 10}, guards())
}

// guarded are two procs with little room for data between them, and a Guard in the second.
func guarded(t *testing.T) (a, b *actor.Proc, ref actor.Ref[*Guard], g *Guard) {
	t.Helper()
	srv := bustest.Server(t)
	a, b = narrow(t, srv, "left"), narrow(t, srv, "right")
	g = &Guard{}
	ref, err := actor.Spawn(t.Context(), b, guard, "guard", g)
	require.NoError(t, err)
	return a, b, ref.Via(a), g
}

// stall keeps the data of one proc from another until the returned function is called, and fills
// its queue.
func stall(t *testing.T, from, to *actor.Proc) (resume func()) {
	t.Helper()
	resume, at := hold(t, from, to)
	for _, size := range []int{8 << 10, 1} {
		err := error(nil)
		for err == nil {
			err = at.Send(t.Context(), make([]byte, size))
		}
		require.ErrorIs(t, err, actor.ErrBacklog)
	}
	return resume
}

// hold keeps the data of one proc from another until the returned function is called. Messages to
// the port wait, too.
func hold(t *testing.T, from, to *actor.Proc) (resume func(), at actor.PortRef[[]byte]) {
	t.Helper()
	gate, entered := make(chan struct{}), make(chan struct{})
	enter := sync.OnceFunc(func() { close(entered) })
	port, closePort := actor.OpenPortFunc(to, func([]byte) error {
		enter()
		<-gate // on the data pump
		return nil
	}, func(error) {})
	resume = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(func() { resume(); closePort() })
	at = port.Via(from)
	require.NoError(t, at.Send(t.Context(), make([]byte, 1<<10)))
	testkit.Next(t, entered)
	return resume, at
}

func TestUrgent_requestArrivesWhileDataIsBlocked_ACT12(t *testing.T) {
	t.Parallel()
	a, b, ref, g := guarded(t)
	resume := stall(t, a, b)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := halt.Call(ctx, ref, "stop")
	require.ErrorIs(t, err, actor.ErrBacklog, "a call has no room")
	urgent, err := halt.CallUrgent(testkit.Soon(t), ref, "stop")
	require.NoError(t, err)
	require.True(t, urgent)
	require.Equal(t, []bool{true}, g.onControl())
	resume()
	require.NoError(t, a.Flush(testkit.Soon(t)))
}

func TestUrgent_replyArrivesWhileDataIsBlocked_ACT12(t *testing.T) {
	a, b, ref, g := guarded(t)
	defer stall(t, b, a)()
	for n := range 6 { // whichever lane brings the question first
		g.mu.Lock()
		g.defers = n%2 == 1
		g.mu.Unlock()
		_, err := halt.CallUrgent(testkit.Soon(t), ref, "stop")
		require.NoError(t, err)
	}
}

func TestUrgent_isHandledAtMostOncePerConnection_ACT12(t *testing.T) {
	a, _, ref, g := guarded(t)
	for range 20 {
		_, err := halt.CallUrgent(testkit.Soon(t), ref, "stop")
		require.NoError(t, err)
	}
	require.NoError(t, a.Flush(testkit.Soon(t)))
	var urgent, ordered int
	for _, u := range g.onControl() {
		if u {
			urgent++
		} else {
			ordered++
		}
	}
	require.LessOrEqual(t, urgent, 20)
	require.LessOrEqual(t, ordered, 20)
	require.GreaterOrEqual(t, urgent+ordered, 20)
}

func TestUrgent_ignoresErrorsOfTheControlConnection_ACT12(t *testing.T) {
	_, _, ref, g := guarded(t)
	g.refuses = true
	urgent, err := halt.CallUrgent(testkit.Soon(t), ref, "stop")
	require.NoError(t, err)
	require.False(t, urgent, "the ordered copy answered")
}

func TestUrgent_toAColocatedActorIsAPlainCall_ACT12(t *testing.T) {
	_, b, ref, g := guarded(t)
	urgent, err := halt.CallUrgent(testkit.Soon(t), ref.Via(b), "stop")
	require.NoError(t, err)
	require.False(t, urgent)
	require.Equal(t, []bool{false}, g.onControl())
}

func TestUrgent_failsAsACallDoes_ACT12(t *testing.T) {
	a, b, ref, g := guarded(t)
	g.refuses = true
	resume := stall(t, a, b)
	asked := make(chan error, 1)
	go func() { asked <- second(halt.CallUrgent(testkit.Soon(t), ref, "stop")) }()
	testkit.Until(t, "an urgent copy came", func() bool { return len(g.onControl()) > 0 })
	a.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed",
		Mesh: b.ID().Mesh.String(), Reason: "struck"})
	require.ErrorIs(t, testkit.Next(t, asked), actor.ErrProcDead)
	resume()
	_, err := halt.CallUrgent(testkit.Soon(t), ref, "stop")
	require.ErrorIs(t, err, actor.ErrProcDead)
	var none actor.Ref[*Guard]
	_, err = halt.CallUrgent(testkit.Soon(t), none, "stop")
	require.ErrorIs(t, err, &actor.Error{Code: actor.CodeInvalid})
}

// sendUrgent sends a foreign process's urgent message to a Guard.
func sendUrgent(t *testing.T, s *stranger, to subjects.ActorID, port, reply string) {
	t.Helper()
	body, err := wire.Marshal("stop")
	require.NoError(t, err)
	s.sendUrgent(t, to.Proc, &wire.Envelope{Kind: wire.Message, Actor: to.Name, Port: port, Sender: "x", Reply: reply,
		TTL: time.Minute, Body: body})
}

func TestUrgent_repeatedRequestGetsTheStoredReply_ACT12(t *testing.T) {
	srv := bustest.Server(t)
	b, s, g := start(t, srv, "right", guards()), newStranger(t, srv), &Guard{}
	ref, err := actor.Spawn(t.Context(), b, guard, "guard", g)
	require.NoError(t, err)
	reply := s.id.Actor("x").Port("_0a").String()
	sendUrgent(t, s, ref.ID(), "patrol", reply)                                // takes nothing urgent
	sendUrgent(t, s, ref.ID(), "halt", b.ID().Actor("x").Port("_0a").String()) // is to be answered to another
	sendUrgent(t, s, ref.ID(), "halt", "nobody")
	for range 3 { // as if the answer were lost
		sendUrgent(t, s, ref.ID(), "halt", reply)
		e := s.awaitControl(t, wire.Urgent).(*wire.Envelope)
		require.Equal(t, wire.Value, e.Kind)
		require.Equal(t, "_0a", e.Port)
	}
	require.Equal(t, []bool{true}, g.onControl())
	require.EqualValues(t, 2, b.Stats().Malformed)
}

func TestUrgent_requestHandledInOrderIsNotHandledAgain_ACT12(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	b, s, g := start(t, srv, "right", guards()), newStranger(t, srv), &Guard{}
	ref, err := actor.Spawn(t.Context(), b, guard, "guard", g)
	require.NoError(t, err)
	body, err := wire.Marshal("stop")
	require.NoError(t, err)
	at := func(port string) string { return s.id.Actor("x").Port(port).String() }
	s.send(t, ref.ID().Port("halt"), senderOf(s.id),
		packet(1, 0, wire.Envelope{Kind: wire.Message, Sender: "x", Reply: at("_0a"), Body: body}))
	testkit.Until(t, "it is handled", func() bool { return len(g.onControl()) == 1 })
	sendUrgent(t, s, ref.ID(), "halt", at("_0a"))
	sendUrgent(t, s, ref.ID(), "halt", at("_0b"))
	for _, want := range []struct {
		port   string
		urgent byte
	}{{"_0a", 0xf4}, {"_0b", 0xf5}} { // the answer to the first was given in its order, and may be held up there
		e := s.awaitControl(t, wire.Urgent).(*wire.Envelope)
		require.Equal(t, want.port, e.Port)
		require.Equal(t, []byte{want.urgent}, e.Body)
	}
	require.Equal(t, []bool{false, true}, g.onControl())
}

func TestUrgent_refusesAReplyFromAnotherProc_ACT12(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	a, s := start(t, srv, "left", guards()), newStranger(t, srv)
	other := newStranger(t, srv)
	ref := actor.RefOf[*Guard](s.id.Actor("guard")).Via(a)
	asked := make(chan error, 1)
	go func() { asked <- second(halt.CallUrgent(testkit.Soon(t), ref, "stop")) }()
	e := s.awaitControl(t, wire.Urgent).(*wire.Envelope)
	home, err := subjects.ParsePortID(e.Reply)
	require.NoError(t, err)
	answer := func(by *stranger) {
		by.sendUrgent(t, a.ID(), &wire.Envelope{Kind: wire.Value, Actor: home.Actor.Name, Port: home.Port,
			Sender: "guard", Body: []byte{0xf5}})
	}
	answer(other)
	testkit.Until(t, "it is refused", func() bool { return a.Stats().Malformed == 1 })
	require.Empty(t, asked)
	answer(s)
	require.NoError(t, testkit.Next(t, asked))
}
