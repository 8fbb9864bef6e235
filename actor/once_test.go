package actor_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// portAt claims that there is a port of type T.
func portAt[T any](t testing.TB, id subjects.PortID) actor.PortRef[T] {
	t.Helper()
	text, err := id.MarshalText()
	require.NoError(t, err)
	var out actor.PortRef[T]
	require.NoError(t, out.UnmarshalText(text))
	return out
}

func TestOncePort_acceptsOneMessage_PORT1(t *testing.T) {
	a, b := two(t)
	for _, first := range []*actor.Proc{a, b} {
		bounced := b.Stats().Bounced
		port := actor.OpenOnce[int](a)
		require.NoError(t, port.Ref().Via(first).Send(t.Context(), 1))
		n, err := port.Recv(testkit.Soon(t))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		err = port.Ref().Send(t.Context(), 2)
		require.ErrorIs(t, err, actor.ErrPortGone)
		require.True(t, asError(t, err).Undeliverable())
		require.NoError(t, port.Ref().Via(b).Send(t.Context(), 3))
		testkit.Until(t, "it came back", func() bool { return b.Stats().Bounced == bounced+1 })
		_, err = port.Recv(t.Context())
		require.ErrorIs(t, err, actor.ErrPortGone, "nothing comes any more")
		open, _ := a.Waiting()
		require.Zero(t, open)
	}
}

func TestOncePort_refusedMessageDoesNotUseItUp_PORT1(t *testing.T) {
	a, b := two(t)
	port := actor.OpenOnce[int](a)
	wrong := portAt[string](t, port.Ref().ID())
	require.ErrorIs(t, wrong.Via(a).Send(t.Context(), "x"), actor.ErrBadMessage)
	require.NoError(t, wrong.Via(b).Send(t.Context(), "x"))
	require.NoError(t, b.Respond(port.Ref().ID(),
		wire.Envelope{Kind: wire.Value, Sender: "client", Body: []byte{1}}))
	testkit.Until(t, "they came back", func() bool { return b.Stats().Bounced == 2 })
	require.NoError(t, port.Ref().Send(t.Context(), 7))
	n, err := port.Recv(testkit.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 7, n)
}

func TestOncePort_acceptsOneOfManySenders_PORT1(t *testing.T) {
	p := alone(t)
	for range 50 {
		port := actor.OpenOnce[int](p)
		var through atomic.Int64
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				switch err := port.Ref().Send(t.Context(), n); err {
				case nil:
					require.Zero(t, through.Swap(int64(n+1)))
				default:
					require.ErrorIs(t, err, actor.ErrPortGone)
				}
			})
		}
		wg.Wait()
		n, err := port.Recv(testkit.Soon(t))
		require.NoError(t, err)
		require.EqualValues(t, through.Load(), n+1)
	}
}

// A message and the end come at the same time: the reply to the sender holds.
func TestOncePort_acceptedMessageSurvivesAConcurrentEnd_PORT1(t *testing.T) {
	p := alone(t)
	for range 200 {
		port, sent := actor.OpenOnce[int](p), make(chan error, 1)
		go func() { sent <- port.Ref().Send(t.Context(), 1) }()
		port.Close()
		port.Close()
		_, err := port.Recv(t.Context())
		if testkit.Next(t, sent) == nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, actor.ErrStopped)
		}
	}
}

func TestOncePort_closesWithItsActorOrContext(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	var port *actor.OncePort[int]
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		port = actor.OpenOnce[int](ctx)
		return 0, nil
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = port.Recv(ctx)
	require.ErrorIs(t, err, context.Canceled)
	testkit.Next(t, p.StopActor(ref.ID().Name, "enough"))
	_, err = port.Recv(t.Context())
	require.ErrorIs(t, err, actor.ErrStopped)
	require.ErrorIs(t, port.Ref().Send(t.Context(), 1), actor.ErrPortGone)
}

func TestPort_closedDiffersFromUnknown_PORT1(t *testing.T) {
	p := alone(t)
	port := actor.OpenPort[int](p)
	port.Close()
	gone := port.Ref().ID().Port
	later := actor.OpenPort[int](p).Ref().ID().Port // the newest: none was given out after it
	for name, want := range map[string]error{
		gone: actor.ErrPortGone, later: nil, later + "zz": actor.ErrNoEndpoint, "add": actor.ErrNoEndpoint,
		"_0": actor.ErrNoEndpoint, "_00": actor.ErrNoEndpoint, "_1": actor.ErrNoEndpoint,
		"_0zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz": actor.ErrNoEndpoint,
	} {
		err := portAt[int](t, p.ID().Actor("client").Port(name)).Via(p).Send(t.Context(), 1)
		require.ErrorIs(t, err, want, name)
	}
}

func TestCode_ofAClosedPortIsStable(t *testing.T) {
	require.EqualValues(t, 17, actor.CodePortGone)
	back := actor.FromWire(actor.EncodeError(actor.ErrPortGone))
	require.ErrorIs(t, back, actor.ErrPortGone)
	require.True(t, back.Undeliverable())
}
