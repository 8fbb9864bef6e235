package actor_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// deferring makes the actor defer its answer and hold it.
func deferring(ctx *actor.Context, b *Box) (int64, error) {
	b.deferred = actor.Defer[int64](ctx)
	return 99, nil
}

func TestDefer_replyIsSentLaterAndOnce(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	answered := make(chan int64, 1)
	go func() {
		n, err := do.Call(t.Context(), ref, deferring)
		require.NoError(t, err)
		answered <- n
	}()
	testkit.Until(t, "deferred", func() bool { info, _ := p.Actor(ref.ID().Name); return info.Handled == 1 })
	_, err := do.Call(t.Context(), ref, func(_ *actor.Context, b *Box) (int64, error) {
		var wg sync.WaitGroup
		b.deferred.Reply(7, nil)
		for range 4 { // from any goroutine, any number of times
			wg.Go(func() { b.deferred.Reply(8, errors.New("late")) })
		}
		wg.Wait()
		return 0, nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 7, testkit.Next(t, answered))
}

func TestDefer_errorIsTheReplyAndActorLives(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		actor.Defer[int64](ctx).Reply(0, actor.ErrNoActor)
		return 0, nil
	})
	require.ErrorIs(t, err, actor.ErrNoActor)
	require.False(t, asError(t, err).Undeliverable())
	require.NoError(t, do.Send(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		actor.Defer[int64](ctx).Reply(0, errors.New("nobody waits"))
		return 0, nil
	}))
	_, err = add.Call(t.Context(), ref, 1)
	require.NoError(t, err)
}

func TestDefer_errorOfTheHandlerIsTheReply_ACT4(t *testing.T) {
	p := alone(t)
	held := make(chan *actor.Deferred[int64], 1)
	refuse := func(ctx *actor.Context, _ *Box) (int64, error) {
		held <- actor.Defer[int64](ctx)
		return 0, errors.New("refused after all")
	}
	ref := spawn(t, p)
	_, err := do.Call(t.Context(), ref, refuse)
	require.ErrorContains(t, err, "refused after all")
	testkit.Next(t, held).Reply(1, nil) // late
	answers := make(chan actor.Answer, 2)
	p.DeliverLocal(ref.ID().Name, "do", step(refuse), func(a actor.Answer) { answers <- a })
	require.ErrorContains(t, testkit.Next(t, answers).Err, "refused after all")
	testkit.Next(t, held).Reply(1, nil)
	require.Empty(t, answers)
	require.NoError(t, do.Send(t.Context(), ref, refuse)) // without a waiting caller it fails the actor
	testkit.Until(t, "failed", func() bool {
		info, _ := p.Actor(ref.ID().Name)
		return info.Status == actor.Failed
	})
}

func TestDefer_missingReplyIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := tuned(t, actor.Options{Log: zerolog.New(&out)}, bustest.Server(t))
		ref := spawn(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, ownsCancel := range []bool{true, false} {
			require.Empty(t, out.String())
			_, err := do.Call(ctx, ref, func(ctx *actor.Context, b *Box) (int64, error) {
				if d := actor.Defer[int64](ctx); ownsCancel {
					d.OnCancel(func() {})
				}
				return 0, nil
			})
			require.ErrorIs(t, err, actor.ErrDeadline)
			synctest.Wait()
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			defer cancel()
		}
		require.Contains(t, out.String(), `"endpoint":"do"`)
		require.Contains(t, out.String(), "a deferred answer was not given before the caller's deadline")
	})
}

func TestDefer_endingActorAnswersPendingCalls_DEL5(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*actor.Proc, actor.Ref[*Box])
		want error
	}{
		{"stopped", func(p *actor.Proc, ref actor.Ref[*Box]) { p.StopActor(ref.ID().Name, "enough") },
			actor.ErrStopped},
		{"failed", func(_ *actor.Proc, ref actor.Ref[*Box]) { _ = boom.Send(context.Background(), ref, "x") },
			actor.ErrFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := alone(t)
			ref := spawn(t, p)
			answered := make(chan error, 1)
			go func() { answered <- second(do.Call(t.Context(), ref, deferring)) }()
			testkit.Until(t, "deferred", func() bool { info, _ := p.Actor(ref.ID().Name); return info.Handled == 1 })
			c.end(p, ref)
			err := testkit.Next(t, answered)
			require.ErrorIs(t, err, c.want)
			require.False(t, asError(t, err).Undeliverable(), "its handler ran")
		})
	}
}

func TestDefer_panickingHandlerRepliesOnce(t *testing.T) {
	p := alone(t)
	for _, replies := range []bool{false, true} {
		ref, answers := spawn(t, p), make(chan actor.Answer, 2)
		p.DeliverLocal(ref.ID().Name, "do", step(func(ctx *actor.Context, _ *Box) (int64, error) {
			d := actor.Defer[int64](ctx)
			again := actor.Defer[int64](ctx) // misuse: it is taken over already
			if replies {
				d.Reply(7, nil)
			}
			again.Reply(8, nil)
			panic("after all")
		}), func(a actor.Answer) { answers <- a })
		a := testkit.Next(t, answers)
		if replies {
			require.Equal(t, actor.Answer{Value: int64(7)}, a)
		} else {
			require.ErrorIs(t, a.Err, actor.ErrPanic)
		}
		testkit.Until(t, "failed", func() bool { info, _ := p.Actor(ref.ID().Name); return info.Status.Terminal() })
		require.Empty(t, answers)
	}
}

func TestDefer_replyAfterTheEndIsDropped(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	var kept *actor.Context
	var held *actor.Deferred[int64]
	n, err := do.Call(t.Context(), ref, func(ctx *actor.Context, b *Box) (int64, error) {
		kept = ctx
		return 5, nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
	actor.Defer[int64](kept).Reply(6, nil) // misuse: it has been answered
	go func() {
		_, _ = do.Call(t.Context(), ref, func(ctx *actor.Context, b *Box) (int64, error) {
			held = actor.Defer[int64](ctx)
			return 0, nil
		})
	}()
	testkit.Until(t, "deferred", func() bool { info, _ := p.Actor(ref.ID().Name); return info.Handled == 2 })
	testkit.Next(t, p.StopActor(ref.ID().Name, ""))
	held.Reply(1, nil) // it was answered with ErrStopped
	kept.Go(func(context.Context) func(*actor.Context) {
		require.Fail(t, "an ended actor starts nothing")
		return nil
	})
}

func TestGo_runsConcurrentlyAndContinuesOnTheTurn(t *testing.T) {
	a, b := two(t)
	ref, other := spawn(t, a), spawn(t, b)
	begun := make(chan struct{})
	n, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		answer := actor.Defer[int64](ctx)
		ctx.Go(func(work context.Context) func(*actor.Context) {
			<-begun
			n, err := add.Call(work, actor.RefOf[*Box](other.ID()), 3) // the sender is the actor
			return func(*actor.Context) { answer.Reply(n, err) }
		})
		_, err := do.Call(ctx, spawnIn(ctx),
			func(*actor.Context, *Box) (int64, error) { close(begun); return 0, nil })
		return 0, err
	})
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
}

// spawnIn makes another box in the actor's proc.
func spawnIn(ctx *actor.Context) actor.Ref[*Box] {
	ref, err := actor.Spawn(ctx, ctx.Proc(), box, "box", 0)
	if err != nil {
		return actor.ErrRef[*Box](err)
	}
	return ref
}

func TestGo_endsWithTheActorWhichAwaitsIt(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	ended := make(chan error, 1)
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		ctx.Go(func(work context.Context) func(*actor.Context) {
			<-work.Done()
			ended <- context.Cause(work)
			return func(*actor.Context) { require.Fail(t, "the actor has stopped") }
		})
		return 0, nil
	})
	require.NoError(t, err)
	testkit.Next(t, p.StopActor(ref.ID().Name, "enough"))
	require.Len(t, ended, 1, "the actor waited")
	require.ErrorContains(t, testkit.Next(t, ended), "the actor stopped: enough")
}

func TestGo_stopFinishesWorkOfDeferredAnswers_ACT5(t *testing.T) {
	p := alone(t)
	ref, gate := spawn(t, p), make(chan struct{})
	answered := make(chan error, 1)
	go func() {
		answered <- second(do.Call(t.Context(), ref, func(ctx *actor.Context, b *Box) (int64, error) {
			answer := actor.Defer[int64](ctx)
			ctx.Go(func(work context.Context) func(*actor.Context) {
				<-gate
				first := work.Err()
				return func(ctx *actor.Context) {
					ctx.Go(func(work context.Context) func(*actor.Context) {
						return func(*actor.Context) { answer.Reply(b.n, errors.Join(first, work.Err())) }
					})
				}
			})
			ctx.Stop("enough")
			return 0, nil
		}))
	}()
	testkit.Until(t, "stopping", func() bool {
		info, _ := p.Actor(ref.ID().Name)
		return info.Status == actor.Stopping && info.Current == ""
	})
	close(gate)
	require.NoError(t, testkit.Next(t, answered))
	testkit.Next(t, p.Done(ref.ID().Name))
}

func TestGo_stopAwaitsDeferredAnswersFor10s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref := spawn(t, p)
		answered := make(chan error, 1)
		go func() {
			answered <- second(do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
				answer := actor.Defer[int64](ctx)
				ctx.Go(func(work context.Context) func(*actor.Context) {
					<-work.Done()
					answer.Reply(0, context.Cause(work))
					return nil
				})
				return 0, nil
			}))
		}()
		synctest.Wait()
		began := time.Now()
		<-p.StopActor(ref.ID().Name, "enough")
		lasted(t, 10*time.Second, began)
		require.ErrorIs(t, <-answered, actor.ErrStopped)
	})
}

func TestGo_hungTaskDelaysTheEndBy10s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, gate := spawn(t, p), make(chan struct{})
		_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
			ctx.Go(func(context.Context) func(*actor.Context) { <-gate; return nil })
			return 0, nil
		})
		require.NoError(t, err)
		began := time.Now()
		<-p.StopActor(ref.ID().Name, "enough")
		lasted(t, 10*time.Second, began)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.EqualError(t, p.Close(ctx), "a task of an actor that has ended did not return")
		close(gate)
		synctest.Wait()
	})
}

func TestAfter_runsOnTheActorsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, began := spawn(t, p), time.Now()
		n, err := do.Call(t.Context(), ref, func(ctx *actor.Context, b *Box) (int64, error) {
			answer := actor.Defer[int64](ctx)
			ctx.After(7*time.Second, func(*actor.Context) { answer.Reply(b.n+1, nil) })
			ctx.After(time.Hour, func(*actor.Context) { require.Fail(t, "the actor stops before") })
			return 0, nil
		})
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.Equal(t, 7*time.Second, time.Since(began))
		<-p.StopActor(ref.ID().Name, "")
	})
}
