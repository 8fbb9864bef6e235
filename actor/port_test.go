package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

func TestPort_keepsOrder(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		p := caller(ref, home)
		port := actor.OpenPort[int](p)
		n, err := feed.Call(t.Context(), ref, port.Ref())
		require.NoError(t, err)
		require.Equal(t, 5, n)
		for n := range 5 {
			got, err := port.Recv(testkit.Soon(t))
			require.NoError(t, err)
			require.Equal(t, n, got)
		}
		port.Close()
		_, err = port.Recv(t.Context())
		require.ErrorIs(t, err, actor.ErrStopped)
		open, _ := p.Waiting()
		require.Zero(t, open)
	})
}

// caller is the proc behind a ref, by the sender of its messages.
func caller(ref actor.Ref[*Box], home *actor.Proc) *actor.Proc {
	if p, _, _ := actor.Sender(context.Background(), ref.Bound()); p != nil {
		return p
	}
	return home
}

func TestPort_fullPortRefusesTheSender(t *testing.T) {
	a, b := two(t)
	port := actor.OpenPort[int](a)
	for n := range 1024 {
		require.NoError(t, port.Ref().Send(t.Context(), n))
	}
	require.ErrorIs(t, port.Ref().Send(t.Context(), 1), actor.ErrMailboxFull)
	require.NoError(t, port.Ref().Via(b).Send(t.Context(), 1))
	testkit.Until(t, "it came back", func() bool { return b.Stats().Bounced == 1 })
	for range 1024 {
		_, err := port.Recv(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, port.Ref().Via(b).Send(t.Context(), 7))
	n, err := port.Recv(testkit.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 7, n, "there is room again")
}

func TestPort_sizeIsThatOfItsOwner(t *testing.T) {
	p := alone(t)
	port := actor.OpenPortSize[int](p, 2)
	for n := range 2 {
		require.NoError(t, port.Ref().Send(t.Context(), n))
	}
	require.ErrorIs(t, port.Ref().Send(t.Context(), 2), actor.ErrMailboxFull)
	require.PanicsWithValue(t, "actor: OpenPortSize: want a size of 1 or more, got 0",
		func() { actor.OpenPortSize[int](p, 0) })
}

func TestPortSendWait_losesNothingToASlowReceiver_DEL6(t *testing.T) {
	t.Parallel()
	const n = 5_000
	for name, procs := range map[string]func(*testing.T) (from, to *actor.Proc){
		"in the proc":   func(t *testing.T) (*actor.Proc, *actor.Proc) { p := alone(t); return p, p },
		"between procs": func(t *testing.T) (*actor.Proc, *actor.Proc) { return held(t) },
		"in the process": func(t *testing.T) (*actor.Proc, *actor.Proc) {
			p := alone(t)
			return p, row(t, p, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := procs(t)
			port := actor.OpenPortSize[int](to, 8)
			sent := make(chan error, 1)
			go func() {
				for i := range n {
					if err := port.Ref().Via(from).SendWait(testkit.Soon(t), i); err != nil {
						sent <- err
						return
					}
				}
				sent <- nil
			}()
			for i := range n {
				got, err := port.Recv(testkit.Soon(t))
				require.NoError(t, err)
				require.Equal(t, i, got)
			}
			require.NoError(t, testkit.Next(t, sent))
			require.Zero(t, from.Stats().Bounced)
		})
	}
}

func TestPortSendWait_isHeldBackUntilMessagesAreReceivedOrThePortEnds_DEL6(t *testing.T) {
	t.Parallel()
	a, b := held(t)
	port := actor.OpenPortSize[[]byte](b, 1)
	ref, body := port.Ref().Via(a), make([]byte, 1000)
	fill := func() (n int) {
		for ; ; n++ {
			ctx, cancel := context.WithCancel(t.Context())
			full := time.AfterFunc(200*time.Millisecond, cancel)
			err := ref.SendWait(ctx, body)
			full.Stop()
			cancel()
			if err != nil {
				require.ErrorIs(t, err, actor.ErrBacklog)
				return n
			}
			require.Less(t, n, 100)
		}
	}
	n := fill()
	require.Greater(t, n, 40)
	for range n {
		_, err := port.Recv(testkit.Soon(t))
		require.NoError(t, err)
	}
	more := 0
	testkit.Until(t, "there is credit again", func() bool {
		more += fill()
		return more > 20
	})
	waited := make(chan error, 1)
	go func() { waited <- ref.SendWait(testkit.Soon(t), body) }()
	port.Close()
	require.NoError(t, testkit.Next(t, waited), "it finds the port closed")
	testkit.Until(t, "it came back", func() bool { return a.Stats().Bounced > 0 })
	require.ErrorIs(t, a.DeadLetters()[0].Reason, actor.ErrPortGone)
}

func TestPort_closedPortRefusesTheSender(t *testing.T) {
	a, b := two(t)
	port := actor.OpenPort[int](a)
	require.NoError(t, port.Ref().Send(t.Context(), 1))
	port.Close()
	port.Close()
	require.ErrorIs(t, port.Ref().Send(t.Context(), 2), actor.ErrPortGone)
	require.NoError(t, port.Ref().Via(b).Send(t.Context(), 2))
	testkit.Until(t, "it came back", func() bool { return b.Stats().Bounced == 1 })
	n, err := port.Recv(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n, "earlier messages are received")
}

func TestPort_staysOpenAfterARefusedMessage(t *testing.T) {
	a, b := two(t)
	port := actor.OpenPort[int](a)
	wrong := actor.PortRef[string]{}
	text, err := port.Ref().MarshalText()
	require.NoError(t, err)
	require.NoError(t, wrong.UnmarshalText(text))
	require.ErrorIs(t, wrong.Via(a).Send(t.Context(), "x"), actor.ErrBadMessage)
	require.NoError(t, wrong.Via(b).Send(t.Context(), "x"))
	require.NoError(t, b.Respond(port.Ref().ID(),
		wire.Envelope{Kind: wire.Value, Sender: "client", Body: []byte{1}}))
	testkit.Until(t, "they came back", func() bool { return b.Stats().Bounced == 2 })
	require.NoError(t, port.Ref().Via(b).Send(t.Context(), 3))
	n, err := port.Recv(testkit.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, port.Ref().ID().String(), port.Ref().String())
}

func TestPort_ofInterfaceAcceptsNil(t *testing.T) {
	p := alone(t)
	port := actor.OpenPort[error](p)
	require.NoError(t, port.Ref().Send(t.Context(), nil))
	err, end := port.Recv(testkit.Soon(t))
	require.NoError(t, end)
	require.NoError(t, err)
}

func TestPort_closesWithItsActorOrContext(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	var port *actor.Port[int]
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		port = actor.OpenPort[int](ctx)
		return 0, nil
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = port.Recv(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, port.Ref().Send(t.Context(), 1))
	testkit.Next(t, p.StopActor(ref.ID().Name, "enough"))
	n, err := port.Recv(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for range 2 {
		_, err = port.Recv(t.Context())
		require.ErrorIs(t, err, actor.ErrStopped)
	}
	require.ErrorIs(t, port.Ref().Send(t.Context(), 1), actor.ErrPortGone)
}

func TestPort_replacementOutlivesThePort(t *testing.T) {
	p := alone(t)
	got := make(chan string, 2)
	first := actor.OpenRaw(p, "sink", "in", func(actor.Incoming) { got <- "first" })
	actor.OpenRaw(p, "sink", "in", func(actor.Incoming) { got <- "second" })
	first.Close()
	require.NoError(t, p.Respond(first.ID(), frame(1)))
	require.Equal(t, "second", testkit.Next(t, got))
}

func TestPortRef_withoutASenderIsAnError(t *testing.T) {
	p := alone(t)
	port := actor.OpenPort[int](p)
	var ref actor.PortRef[int]
	text, err := port.Ref().MarshalText()
	require.NoError(t, err)
	require.NoError(t, ref.UnmarshalText(text))
	require.ErrorContains(t, ref.Send(t.Context(), 1), "no sender: send from")
	require.ErrorIs(t, port.Ref().Via(p).Send(t.Context(), 1), nil)
	require.Equal(t, subjects.PortID{}, actor.PortRef[int]{}.ID())
}

// frame is a message of the client to an endpoint for numbers.
func frame(n byte) wire.Envelope {
	return wire.Envelope{Kind: wire.Message, Sender: "client", Body: []byte{n}}
}
