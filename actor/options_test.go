package actor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

// tuned is a proc with options of the test's own.
func tuned(t *testing.T, o actor.Options, srv *embed.Server) *actor.Proc {
	t.Helper()
	var err error
	o.ID, o.Bus, o.Coordinator = newHost(t, "tuned").Proc(), bustest.Open(t, srv), func(actor.Event) {}
	o.Registry, err = actor.NewRegistry(boxes())
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		require.NoError(t, p.Close(ctx))
	})
	return p
}

func TestOptions_procSetsTheDefaultCallTimeout(t *testing.T) {
	const deadline = 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a := tuned(t, actor.Options{Deadline: deadline, Mailbox: 1}, srv)
		b := start(t, srv, "right")
		here, there := spawn(t, a), spawn(t, b)
		defer blocked(t, here)()
		defer blocked(t, there)()
		require.NoError(t, add.Send(t.Context(), here, 1))
		for what, verb := range map[string]func() error{
			"a call": func() error {
				return second(
					do.Call(t.Context(), spawn(t, a), answerAfter(2*deadline, 1)))
			},
			"a call far away": func() error { return second(add.Call(t.Context(), there.Via(a), 1)) },
			"a wait for room": func() error { return add.SendWait(t.Context(), here, 1) },
		} {
			from := time.Now()
			require.Error(t, verb(), what)
			require.Equal(t, deadline, time.Since(from), what)
		}
	})
}

func TestOptions_procSetsTheDefaultMessageDeadline(t *testing.T) {
	const deadline = 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a := tuned(t, actor.Options{Deadline: deadline}, srv)
		b := start(t, srv, "right")
		there := spawn(t, b).Via(a)
		defer deafen(t, b, a)()
		require.NoError(t, add.Send(t.Context(), there, 1))
		from := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*deadline)
		defer cancel()
		require.NoError(t, a.Flush(ctx))
		require.GreaterOrEqual(t, time.Since(from), deadline)
		require.EqualValues(t, 2, a.Stats().Bounced, "the message, and the blocker of its proc")
	})
}

func TestOptions_procSetsTheDefaultMailboxSize(t *testing.T) {
	p := tuned(t, actor.Options{Mailbox: 2}, bustest.Server(t))
	for want, opts := range map[int][]actor.Option{2: nil, 5: {actor.Mailbox(5)},
		10: {actor.Mailbox(actor.Unbounded)}} {
		ref, err := actor.Spawn(t.Context(), p, box, "box", 0, opts...)
		require.NoError(t, err)
		release := blocked(t, ref)
		took := 0
		for range 10 {
			if add.Send(t.Context(), ref, 1) == nil {
				took++
			}
		}
		release()
		require.Equal(t, want, took)
	}
}

func TestOptions_mailboxWithoutCapacityIsRefused(t *testing.T) {
	_, err := actor.NewProc(t.Context(), actor.Options{ID: newHost(t, "alone").Proc(), Mailbox: -2})
	require.ErrorContains(t, err, "mailbox of -2 messages: want 1 to")
}
