package actor_test

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

var (
	desk  = actor.NewType[*Desk, actor.None]("desk")
	leave = actor.NewEndpoint[*Desk, []byte, actor.None]("leave")
)

// Desk is an actor that looks at its messages, and keeps none.
type Desk struct {
	see func(context.Context, []byte)
}

// desks defines an actor that gives each message to see.
func desks(see func(context.Context, []byte)) actor.Def {
	return desk.Define(func(*actor.Context, actor.None) (*Desk, error) { return &Desk{see}, nil },
		leave.Handle(func(d *Desk, ctx *actor.Context, n []byte) (actor.None, error) {
			d.see(ctx, n)
			return actor.None{}, nil
		}))
}

func TestRest_actorHoldsNoMessage_ACT10(t *testing.T) {
	seen := make(chan weak.Pointer[byte], 1)
	def := desks(func(_ context.Context, n []byte) { seen <- weak.Make(&n[0]) })
	srv := bustest.Server(t)
	left, right := start(t, srv, "left", def), start(t, srv, "right", def)
	send := func(ref actor.Ref[*Desk], size int) error {
		return leave.SendWait(t.Context(), ref, make([]byte, size)) // at the handler a part of the packet
	}
	call := func(ref actor.Ref[*Desk], size int) error {
		_, err := leave.Call(t.Context(), ref, make([]byte, size))
		return err
	}
	for name, c := range map[string]struct {
		message func(actor.Ref[*Desk], int) error
		from    *actor.Proc
		size    int
	}{
		"send of this process":    {send, right, 1 << 10},
		"call of this process":    {call, right, 1 << 10},
		"send of another process": {send, left, 1 << 10},
		"call of another process": {call, left, 1 << 10},
		"send of some packets":    {send, left, 2 << 20},
		"call of some packets":    {call, left, 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			ref, err := actor.Spawn(t.Context(), right, desk, "desk", actor.None{})
			require.NoError(t, err)
			require.NoError(t, c.message(ref.Via(c.from), c.size))
			message := testkit.Next(t, seen)
			testkit.Until(t, "the message is garbage", func() bool {
				runtime.GC()
				return message.Value() == nil
			})
			<-right.StopActor(ref.ID().Name, "enough")
		})
	}
}

// Sends share a Context. Messages of the same process have no Delivery, those of others have one.
func TestContext_keptOfASendIsUntouchedByTheNextOnes(t *testing.T) {
	const sends = 100
	kept := make(chan context.Context, 2*sends)
	def := desks(func(ctx context.Context, _ []byte) { kept <- ctx })
	srv := bustest.Server(t)
	left, right := start(t, srv, "left", def), start(t, srv, "right", def)
	ref, err := actor.Spawn(t.Context(), right, desk, "desk", actor.None{})
	require.NoError(t, err)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range sends {
			assert.NoError(t, leave.SendWait(t.Context(), ref.Via(left), []byte("a")))
			assert.NoError(t, leave.SendWait(t.Context(), ref, []byte("b")))
		}
	}()
	for range 2 * sends {
		ctx := testkit.Next(t, kept)
		require.NoError(t, ctx.Err())
		require.NotNil(t, ctx.Done())
		_, has := ctx.Deadline()
		require.False(t, has)
	}
	<-sent
}
