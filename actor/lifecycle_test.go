package actor_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestActor_runsOnAtMostOneGoroutine_ACT1(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, b *Box) (int64, error) {
					most.Store(max(most.Load(), inside.Add(1)))
					ctx.Go(func(context.Context) func(*actor.Context) {
						return func(*actor.Context) { b.n++ } // the race detector watches n
					})
					b.n++
					inside.Add(-1)
					return b.n, nil
				})
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, most.Load())
}

func TestActor_hasNoGoroutineWhenIdle_ACT1(t *testing.T) {
	p := alone(t)
	spawn(t, p)
	before := runtime.NumGoroutine()
	for range 1000 {
		_, err := add.Call(t.Context(), spawn(t, p), 1)
		require.NoError(t, err)
	}
	testkit.Until(t, "rest", func() bool { return runtime.NumGoroutine() <= before })
}

func TestPanic_failsOnlyItsActor_ACT2(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		es, other := record(home), spawn(t, home)
		_, err := boom.Call(t.Context(), ref, "crash test")
		require.ErrorIs(t, err, actor.ErrPanic)
		require.ErrorContains(t, err, "boom: panicked: crash test")
		require.False(t, asError(t, err).Undeliverable())
		testkit.Until(t, "failed", func() bool { return len(es.of(ref.ID().Name)) == 1 })
		_, err = add.Call(t.Context(), ref, 1)
		require.ErrorIs(t, err, actor.ErrFailed)
		_, err = add.Call(t.Context(), other, 1)
		require.NoError(t, err, "the proc lives")
		require.Equal(t, []string{"failed"}, es.of(ref.ID().Name))
	})
}

func TestPanic_goexitInAHandlerFailsTheActor_ACT2(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	_, err := do.Call(testkit.Soon(t), ref, func(*actor.Context, *Box) (int64, error) {
		runtime.Goexit() // as t.FailNow does
		return 0, nil
	})
	require.ErrorIs(t, err, actor.ErrPanic)
	require.ErrorContains(t, err, "ended its goroutine")
	require.NoError(t, p.Close(testkit.Soon(t)))
}

func TestPanic_inATaskFailsTheActor_ACT2(t *testing.T) {
	p := alone(t)
	ref, es := spawn(t, p), record(p)
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		ctx.Go(func(context.Context) func(*actor.Context) { panic("off the turn") })
		return 0, nil
	})
	require.NoError(t, err)
	testkit.Until(t, "failed", func() bool { return len(es.of(ref.ID().Name)) == 1 })
	info, _ := p.Actor(ref.ID().Name)
	require.Regexp(t, `^a task panicked: off the turn \(actor/lifecycle_test\.go:\d+\)$`, info.Reason)
}

func TestPanic_inAMarshalerIsAnError_ACT2(t *testing.T) {
	a, b := two(t)
	ref := spawn(t, b).Via(a)
	_, err := rude.Call(t.Context(), ref, "in")
	require.ErrorIs(t, err, actor.ErrBadMessage, "a message that does not decode")
	_, err = rude.Call(t.Context(), ref, "out")
	require.ErrorIs(t, err, actor.ErrInvalid, "one that cannot be sent")
	_, err = rude.Call(t.Context(), ref, "ou")
	require.ErrorContains(t, err, "panicked: rude out", "an answer without an encoding")
	require.False(t, asError(t, err).Undeliverable())
	_, err = rude.Call(t.Context(), ref, "x")
	require.NoError(t, err)
}

func TestActor_terminalEventFollowsTheLastHandlerOnce_ACT3(t *testing.T) {
	srv := bustest.Server(t)
	p := start(t, srv, "alone")
	ref, es := spawn(t, p), record(p)
	release := blocked(t, ref)
	var late atomic.Bool
	for range 3 {
		require.NoError(t, do.Send(t.Context(), ref, func(*actor.Context, *Box) (int64, error) {
			late.Store(len(es.of(ref.ID().Name)) > 0)
			return 0, nil
		}))
	}
	done := p.StopActor(ref.ID().Name, "enough")
	p.StopActor(ref.ID().Name, "again")
	info, _ := p.Actor(ref.ID().Name)
	require.Equal(t, actor.Stopping, info.Status)
	require.Equal(t, "do", info.Current)
	require.Equal(t, 3, info.Queued)
	release()
	testkit.Next(t, done)
	require.False(t, late.Load())
	require.Equal(t, []string{"stopped"}, es.of(ref.ID().Name))
	info, _ = p.Actor(ref.ID().Name)
	require.Equal(t, actor.Info{
		Kind: actor.KindActor, ID: ref.ID().String(), Name: ref.ID().Name, Type: "box",
		Status: actor.Stopped, Reason: "enough", Handled: 4,
	}, info)
	require.Nil(t, p.StopActor("nobody", ""))
}

func TestActor_abandonedActorFailsWhenItsHandlerReturns_ACT3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, es := spawn(t, p), record(p)
		release := blocked(t, ref)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Close(ctx)
		require.EqualError(t, err, ref.ID().String()+" did not stop: its handler of do has not returned")
		require.Empty(t, es.of(ref.ID().Name), "its last handler still runs")
		release()
		synctest.Wait()
		require.Equal(t, []string{"failed"}, es.of(ref.ID().Name))
		require.NoError(t, p.Close(ctx), "a second call does nothing")
	})
}

func TestStop_drainsTheMailboxAndRefusesMore_ACT5(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		local := actor.RefOf[*Box](ref.ID()).Via(home)
		release := blocked(t, local)
		sum := make(chan int64, 1)
		for range 10 {
			require.NoError(t, add.Send(t.Context(), local, 1))
		}
		require.NoError(t, do.Send(t.Context(), local,
			func(_ *actor.Context, b *Box) (int64, error) { sum <- b.n; return 0, nil }))
		done := home.StopActor(ref.ID().Name, "enough")
		_, err := add.Call(t.Context(), ref, 1)
		require.ErrorIs(t, err, actor.ErrStopped)
		require.True(t, asError(t, err).Undeliverable())
		require.ErrorContains(t, err, "the actor stopped: enough")
		release()
		testkit.Next(t, done)
		require.EqualValues(t, 10, testkit.Next(t, sum))
	})
}

func TestMailbox_fullMailboxRefusesTheSender_DEL6(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		local := actor.RefOf[*Box](ref.ID()).Via(home)
		release := blocked(t, local)
		defer release()
		for range 1024 {
			require.NoError(t, add.Send(t.Context(), local, 1))
		}
		require.ErrorIs(t, add.Send(t.Context(), local, 1), actor.ErrMailboxFull)
		_, err := add.Call(t.Context(), ref, 1)
		require.ErrorIs(t, err, actor.ErrMailboxFull)
		require.True(t, asError(t, err).Undeliverable())
		release()
		testkit.Until(t, "room", func() bool { info, _ := home.Actor(ref.ID().Name); return info.Queued < 1024 })
		n, err := add.Call(testkit.Soon(t), local, 0)
		require.NoError(t, err)
		require.EqualValues(t, 1024, n)
	})
}

func TestActor_failedActorReturnsItsMail_DEL5(t *testing.T) {
	a, b := two(t)
	ref := spawn(t, b)
	release := blocked(t, ref)
	require.NoError(t, boom.Send(t.Context(), ref, "crash test"))
	answers := make(chan error, 2)
	for _, via := range []*actor.Proc{a, b} {
		go func() { answers <- second(add.Call(t.Context(), ref.Via(via), 1)) }()
	}
	testkit.Until(t, "queued", func() bool { info, _ := b.Actor(ref.ID().Name); return info.Queued == 3 })
	require.NoError(t, add.Send(t.Context(), ref.Via(a), 1))
	testkit.Until(t, "queued", func() bool { info, _ := b.Actor(ref.ID().Name); return info.Queued == 4 })
	release()
	for range 2 {
		err := testkit.Next(t, answers)
		require.ErrorIs(t, err, actor.ErrFailed)
		require.True(t, asError(t, err).Undeliverable())
		require.ErrorContains(t, err, "add: the actor failed")
	}
	testkit.Until(t, "the post came back", func() bool { return a.Stats().Bounced == 1 })
}

func TestStopping_runsAfterTheLastHandlerAndCanSend(t *testing.T) {
	a, b := two(t)
	ref, other := spawn(t, a), spawn(t, b)
	var order []string
	_, err := do.Call(t.Context(), ref, func(_ *actor.Context, bx *Box) (int64, error) {
		bx.cleanup = func(ctx *actor.Context, cause error) error {
			require.NoError(t, cause)
			n, err := add.Call(ctx, other, 5)
			require.NoError(t, err)
			require.EqualValues(t, 5, n)
			order = append(order, "stopping")
			return nil
		}
		return 0, nil
	})
	require.NoError(t, err)
	release := blocked(t, ref)
	require.NoError(t, do.Send(t.Context(), ref,
		func(*actor.Context, *Box) (int64, error) { order = append(order, "mail"); return 0, nil }))
	done := a.StopActor(ref.ID().Name, "enough")
	release()
	testkit.Next(t, done)
	require.Equal(t, []string{"mail", "stopping"}, order)
}

func TestStopping_panicFailsTheActor(t *testing.T) {
	p := alone(t)
	ref, es := spawn(t, p), record(p)
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, b *Box) (int64, error) {
		b.cleanup = func(*actor.Context, error) error { panic("on the way out") }
		ctx.Stop("by itself")
		return 0, nil
	})
	require.NoError(t, err)
	testkit.Until(t, "failed", func() bool { return len(es.of(ref.ID().Name)) == 1 })
	require.Equal(t, []string{"failed"}, es.of(ref.ID().Name))
}

func TestClose_stopsEveryActorAndRefusesMore(t *testing.T) {
	srv := bustest.Server(t)
	a, b := start(t, srv, "left"), start(t, srv, "right")
	refs := []actor.Ref[*Box]{spawn(t, b), spawn(t, b)}
	es := record(b)
	release := blocked(t, refs[0])
	pending := make(chan error, 1)
	go func() { pending <- second(add.Call(t.Context(), refs[0].Via(a), 1)) }()
	testkit.Until(t, "queued", func() bool { info, _ := b.Actor(refs[0].ID().Name); return info.Queued == 1 })
	closed := make(chan error, 1)
	go func() { closed <- b.Close(testkit.Soon(t)) }()
	testkit.Until(t, "stopping", func() bool {
		info,
			_ := b.Actor(refs[0].ID().Name)
		return info.Status == actor.Stopping
	})
	release()
	require.NoError(t, testkit.Next(t, closed))
	for _, e := range es.all {
		require.True(t, !e.Terminal() || e.EndedWithProc(), "no actor has ended by itself: %s", e.Report())
	}
	require.NoError(t, testkit.Next(t, pending), "accepted messages are answered before the proc ends")
	_, err := add.Call(t.Context(), refs[1], 1)
	require.ErrorIs(t, err, actor.ErrStopped, "a local caller is told at once")
	_, err = add.Call(t.Context(), spawn(t, a).Via(b), 1)
	require.ErrorIs(t, err, actor.ErrStopped, "no answer could come")
	require.True(t, asError(t, err).Undeliverable())
	require.ErrorIs(t, b.Subscribe(b.Space().PortsOf(b.ID()), nil), actor.ErrStopped)
}

func TestClose_endsCallsAndPorts(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	a, b := start(t, srv, "left"), start(t, srv, "right")
	ref := spawn(t, b)
	defer blocked(t, ref)()
	port := actor.OpenPort[int](a)
	ends := make(chan error, 3)
	actor.OpenPrivate(a, "client", nil, func(err error) { ends <- err })
	go func() { ends <- second(add.Call(t.Context(), ref.Via(a), 1)) }()
	go func() { ends <- second(port.Recv(t.Context())) }()
	testkit.Until(t, "queued", func() bool { info, _ := b.Actor(ref.ID().Name); return info.Queued == 1 })
	require.NoError(t, a.Close(testkit.Soon(t)))
	for range 3 {
		err := testkit.Next(t, ends)
		require.ErrorIs(t, err, actor.ErrStopped)
	}
	_, err := actor.OpenPort[int](a).Recv(testkit.Soon(t))
	require.ErrorIs(t, err, actor.ErrStopped, "a port that is opened later is closed")
	ports, calls := a.Waiting()
	require.Zero(t, ports+calls)
}

func TestProc_remembersABoundedNumberOfEndedActors(t *testing.T) {
	p := alone(t)
	first := spawn(t, p)
	live := spawn(t, p)
	testkit.Next(t, p.StopActor(first.ID().Name, ""))
	for range 3 { // the same name again and again is not forgotten while it lives
		_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "box", Name: "again", Params: int64(0)})
		require.NoError(t, err)
		testkit.Next(t, p.StopActor("again", ""))
	}
	_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "box", Name: "again", Params: int64(0)})
	require.NoError(t, err)
	for range actor.MaxEnded {
		testkit.Next(t, p.StopActor(spawn(t, p).ID().Name, ""))
	}
	_, known := p.Actor(first.ID().Name)
	require.False(t, known)
	for _, name := range []string{live.ID().Name, "again"} {
		info, known := p.Actor(name)
		require.True(t, known)
		require.Equal(t, actor.Running, info.Status)
	}
	require.Len(t, p.Actors(), actor.MaxEnded+2)
}

func TestNewProc_reportsMissingOptions(t *testing.T) {
	_, err := actor.NewProc(t.Context(), actor.Options{})
	require.ErrorContains(t, err, "want a valid ID")
	p := alone(t)
	_, err = actor.NewProc(t.Context(), actor.Options{ID: p.ID()})
	require.ErrorContains(t, err, "want a bus, got nil")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = actor.NewProc(ctx, actor.Options{ID: p.ID(), Bus: p.Bus()})
	require.ErrorIs(t, err, context.Canceled)
}

func TestActor_withResumeOnErrorLogsUnawaitedErrors_ACT4(t *testing.T) {
	steady := actor.NewType[*Box, int64]("steady")
	p := start(t, bustest.Server(t), "steady",
		steady.Define(newBox, add.Handle((*Box).add), fail.Handle((*Box).fail)).ResumeOnError())
	ref, err := actor.Spawn(t.Context(), p, steady, "steady", 0)
	require.NoError(t, err)
	require.NoError(t, fail.Send(t.Context(), ref, "stray"))
	n, err := add.Call(t.Context(), ref, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}
