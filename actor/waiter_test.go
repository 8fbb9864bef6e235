package actor_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
)

// answerAfter makes a handler take some time.
func answerAfter(d time.Duration, answer int64) step {
	return func(*actor.Context, *Box) (int64, error) {
		time.Sleep(d)
		return answer, nil
	}
}

// deferFor makes an actor answer later, without blocking.
func deferFor(d time.Duration, answer int64) step {
	return func(ctx *actor.Context, _ *Box) (int64, error) {
		later := actor.Defer[int64](ctx)
		ctx.After(d, func(*actor.Context) { later.Reply(answer, nil) })
		return 0, nil
	}
}

func TestWaiter_callWithoutADeadlineWaits30s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref := spawn(t, p)
		defer blocked(t, ref)()
		for range 3 { // the alarm is set again
			from := time.Now()
			_, err := add.Call(t.Context(), ref, 1)
			require.ErrorIs(t, err, actor.ErrDeadline)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, actor.DefaultDeadline, time.Since(from))
		}
	})
}

func TestWaiter_callEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref := spawn(t, p)
		defer blocked(t, ref)()
		for _, d := range []time.Duration{time.Nanosecond, time.Second, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			from := time.Now()
			_, err := add.Call(ctx, ref, 1)
			cancel()
			require.ErrorIs(t, err, actor.ErrDeadline)
			require.Equal(t, d, time.Since(from))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("bored")) })
		from := time.Now()
		_, err := add.Call(ctx, ref, 1)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "the caller gave up: bored")
		require.Equal(t, time.Second, time.Since(from))
		_, err = add.Call(ctx, ref, 1)
		require.ErrorIs(t, err, context.Canceled, "it is over already")
		require.Equal(t, time.Second, time.Since(from))
	})
}

func TestWaiter_eachCallerGetsItsOwnReplyOrTimeout(t *testing.T) {
	const callers, each = 40, 25
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref := spawn(t, p)
		var late atomic.Uint64
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(c), 1))
				for n := range each {
					own, answer := 30*time.Second, time.Duration(1+r.IntN(60_000))*time.Millisecond
					time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
					ctx, cancel := context.WithCancel(t.Context())
					if r.IntN(2) == 0 {
						cancel()
						own = time.Duration(1+r.IntN(60_000)) * time.Millisecond
						ctx, cancel = context.WithTimeout(t.Context(), own)
					}
					from, want := time.Now(), int64(c*each+n)
					got, err := do.Call(ctx, ref, deferFor(answer, want))
					cancel()
					if err != nil {
						late.Add(1)
					}
					if answer < own {
						require.NoError(t, err)
						require.Equal(t, want, got, "the answer of another call")
						require.Equal(t, answer, time.Since(from))
					} else if answer > own {
						require.ErrorIs(t, err, actor.ErrDeadline)
						require.Equal(t, own, time.Since(from))
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, late.Load(), p.Stats().Late)
	})
}

func TestWaiter_replyAtTheDeadlineIsReturnedOrLate(t *testing.T) {
	t.Parallel()
	const calls = 200
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		var given, missed atomic.Uint64
		for n := range calls {
			ctx, cancel, own := t.Context(), func() {}, actor.DefaultDeadline
			if n%2 == 0 {
				own = time.Second
				ctx, cancel = context.WithTimeout(ctx, own)
			}
			from := time.Now()
			got, err := do.Call(ctx, spawn(t, p), answerAfter(own, int64(n)))
			cancel()
			require.Equal(t, own, time.Since(from))
			if err == nil {
				require.EqualValues(t, n, got)
				given.Add(1)
			} else {
				require.ErrorIs(t, err, actor.ErrDeadline)
				missed.Add(1)
			}
			synctest.Wait()
			require.Equal(t, missed.Load(), p.Stats().Late, "each answer is given or late")
		}
		require.EqualValues(t, calls, given.Load()+missed.Load())
	})
}

func TestWaiter_lateReplyDoesNotReachTheNextCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		for n := range int64(50) {
			slow := spawn(t, p)
			_, err := do.Call(t.Context(), slow, answerAfter(actor.DefaultDeadline+time.Second, -1))
			require.ErrorIs(t, err, actor.ErrDeadline)
			from := time.Now()
			// the late answer comes meanwhile
			got, err := do.Call(t.Context(), spawn(t, p), deferFor(2*time.Second, n))
			require.NoError(t, err)
			require.Equal(t, n, got)
			require.Equal(t, 2*time.Second, time.Since(from))
			<-p.KillActor(slow.ID().Name, "done")
		}
	})
}

func TestWaiter_concurrentCallersGetTheirOwnReplies(t *testing.T) {
	p := alone(t) // in real time, for the race detector
	ref := spawn(t, p)
	var wg sync.WaitGroup
	for c := range int64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 2))
			for n := range int64(300) {
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(3) == 0 {
					time.AfterFunc(time.Duration(r.IntN(50))*time.Microsecond, cancel)
				}
				got, err := do.Call(ctx, ref, func(*actor.Context, *Box) (int64, error) { return c<<32 | n, nil })
				cancel()
				if err == nil {
					require.Equal(t, c<<32|n, got)
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
			}
		})
	}
	wg.Wait()
}
