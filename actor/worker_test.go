package actor_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// soonEnough is the time of two checks for actors without a worker.
const soonEnough = time.Millisecond

// ping makes an actor send the time when it runs.
func ping(at chan<- time.Time) step {
	return func(*actor.Context, *Box) (int64, error) {
		at <- time.Now()
		return 0, nil
	}
}

// blockers are the ways in which a handler waits, with or without the runtime's knowledge. done
// ends them.
func blockers(silent actor.Ref[*Box], port *actor.Port[int]) map[string]struct {
	wait  func(ctx *actor.Context, done <-chan struct{}) error
	tells bool
} {
	return map[string]struct {
		wait  func(ctx *actor.Context, done <-chan struct{}) error
		tells bool
	}{
		"a channel": {func(_ *actor.Context, done <-chan struct{}) error { <-done; return nil }, false},
		"a sleep":   {func(*actor.Context, <-chan struct{}) error { time.Sleep(time.Second); return nil }, false},
		"a call": {func(ctx *actor.Context, _ <-chan struct{}) error {
			return second(add.Call(ctx, silent, 1))
		}, true},
		"a call by its ID": {func(ctx *actor.Context, _ <-chan struct{}) error {
			return second(add.Call(ctx, actor.RefOf[*Box](silent.ID()), 1))
		}, true},
		"a port": {func(ctx *actor.Context, _ <-chan struct{}) error { return second(port.Recv(ctx)) }, false},
	}
}

func TestWorker_recipientRunsWhileTheSenderBlocks(t *testing.T) {
	for _, name := range []string{"a channel", "a sleep", "a call", "a call by its ID", "a port"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, bustest.Server(t), "alone")
				port := actor.OpenPort[int](p)
				from, to, silent := spawn(t, p), spawn(t, p), spawn(t, p)
				release := blocked(t, silent)
				how := blockers(silent, port)[name]
				ran, done, ended := make(chan time.Time, 1), make(chan struct{}), make(chan error, 1)
				posted := time.Now()
				require.NoError(t, do.Send(t.Context(), from, func(ctx *actor.Context, _ *Box) (int64, error) {
					if err := do.Send(ctx, to, ping(ran)); err != nil {
						return 0, err
					}
					ended <- how.wait(ctx, done)
					return 0, nil
				}))
				if how.tells {
					synctest.Wait()
				} else {
					time.Sleep(soonEnough)
				}
				require.Len(t, ran, 1)
				require.Less(t, (<-ran).Sub(posted), soonEnough)
				require.Empty(t, ended, "it waits still")
				release()
				close(done)
				require.NoError(t, port.Ref().Send(t.Context(), 1))
				require.NoError(t, <-ended)
				port.Close()
			})
		})
	}
}

func TestWorker_recipientAwaitsAShortHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		a, b := spawn(t, p), spawn(t, p)
		synctest.Wait()    // who ran their constructors looks for more to do, and would take it
		var order []string // guarded by the one goroutine that runs both
		say := func(what string, then func(*actor.Context)) step {
			return func(ctx *actor.Context, _ *Box) (int64, error) {
				order = append(order, what)
				then(ctx)
				order = append(order, what+" returns")
				return 0, nil
			}
		}
		over := make(chan struct{})
		require.NoError(t, do.Send(t.Context(), a, say("a", func(ctx *actor.Context) {
			require.NoError(t, do.Send(ctx, b, say("b", func(ctx *actor.Context) {
				require.NoError(t, do.Send(ctx, a, say("a again", func(*actor.Context) { close(over) })))
			})))
		})))
		<-over
		synctest.Wait()
		require.Equal(t, []string{"a", "a returns", "b", "b returns", "a again", "a again returns"}, order)
	})
}

func TestWorker_startsAnotherAt16QueuedActors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		from, to := spawn(t, p), spawn(t, p)
		synctest.Wait() // else a worker still runs a constructor, and then the mail of that actor
		var handled atomic.Int64
		more := make(chan int)
		require.NoError(t, do.Send(t.Context(), from, func(ctx *actor.Context, _ *Box) (int64, error) {
			for n := range more {
				for range n {
					require.NoError(t, do.Send(ctx, to,
						func(*actor.Context, *Box) (int64, error) { return handled.Add(1), nil }))
				}
			}
			return 0, nil
		}))
		more <- 16
		synctest.Wait() // no time passes
		require.Zero(t, handled.Load())
		more <- 1
		synctest.Wait()
		require.EqualValues(t, 17, handled.Load())
		close(more)
	})
}

func TestWorker_blockedHandlerDelaysOnlyItsActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		from, first, other := spawn(t, p), spawn(t, p), spawn(t, p)
		synctest.Wait() // else a worker still runs a constructor, and then the mail of that actor
		ran, done := make(chan time.Time, 2), make(chan struct{})
		require.NoError(t, do.Send(t.Context(), from, func(ctx *actor.Context, _ *Box) (int64, error) {
			require.NoError(t, do.Send(ctx, first, ping(ran)))
			require.NoError(t, do.Send(ctx, other, ping(ran)))
			<-done
			return 0, nil
		}))
		synctest.Wait()
		require.Len(t, ran, 1, "the second runs at once")
		time.Sleep(soonEnough)
		require.Len(t, ran, 2)
		close(done)
	})
}

func TestWorker_goexitInAHandlerLosesNoActor(t *testing.T) {
	for name, end := range map[string]func(){"exit": runtime.Goexit, "panic": func() { panic("random") }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, bustest.Server(t), "alone")
				from, to := spawn(t, p), spawn(t, p)
				ran := make(chan time.Time, 1)
				require.NoError(t, do.Send(t.Context(), from, func(ctx *actor.Context, _ *Box) (int64, error) {
					require.NoError(t, do.Send(ctx, to, ping(ran)))
					end()
					return 0, nil
				}))
				synctest.Wait() // no time passes
				require.Len(t, ran, 1)
				require.Equal(t, actor.Failed, status(t, p, from))
				_, err := add.Call(t.Context(), to, 1)
				require.NoError(t, err)
			})
		})
	}
}

func TestWorker_runsSendsFromTasksAndKeptContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		from, to := spawn(t, p), spawn(t, p)
		ran := make(chan time.Time, 2)
		var kept context.Context
		_, err := do.Call(t.Context(), from, func(ctx *actor.Context, _ *Box) (int64, error) {
			kept = ctx
			ctx.Go(func(work context.Context) func(*actor.Context) {
				require.NoError(t, do.Send(work, to, ping(ran)))
				return nil
			})
			return 0, nil
		})
		require.NoError(t, err)
		time.Sleep(time.Minute) // its worker has ended
		synctest.Wait()
		require.Len(t, ran, 1)
		require.NoError(t, do.Send(kept, to, ping(ran)))
		synctest.Wait()
		require.Len(t, ran, 2)
	})
}

// pass is a message on its way around a ring of actors.
func pass(ring []actor.Ref[*Box], at, left int, over chan<- struct{}) step {
	return func(ctx *actor.Context, _ *Box) (int64, error) {
		if left == 0 {
			close(over)
			return 0, nil
		}
		next := (at + 1) % len(ring)
		return 0, do.Send(ctx, ring[next], pass(ring, next, left-1, over))
	}
}

// workerFrame is in the stack of every worker.
const workerFrame = "actor.(*workers).work"

// stacks are those of all goroutines in bubbles; other tests leave theirs.
func stacks() string {
	buf := make([]byte, 1<<20)
	var inside []string
	for one := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if head, _, _ := strings.Cut(one, "\n"); strings.Contains(head, "synctest bubble") {
			inside = append(inside, one)
		}
	}
	return strings.Join(inside, "\n\n")
}

func TestWorker_hasNoGoroutineOrPollingWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		var ring []actor.Ref[*Box]
		for range 10 {
			ring = append(ring, spawn(t, p))
		}
		for range 3 {
			var overs []chan struct{}
			for at := range ring {
				over := make(chan struct{})
				overs = append(overs, over)
				require.NoError(t, do.Send(t.Context(), ring[at], pass(ring, at, 500, over)))
			}
			for _, over := range overs {
				<-over
			}
			require.NoError(t, do.Send(t.Context(), ring[0], answerAfter(time.Millisecond, 0)))
			require.Contains(t, stacks(), workerFrame, "else this test sees nothing")
			time.Sleep(3 * time.Second)
			synctest.Wait()
			require.NotContains(t, stacks(), workerFrame)
			require.False(t, p.Looking())
		}
	})
}

func TestWorker_concurrentRingsComplete(t *testing.T) {
	p := alone(t) // in real time, for the race detector
	var ring []actor.Ref[*Box]
	for range 7 {
		ring = append(ring, spawn(t, p))
	}
	var overs []chan struct{}
	for n := range 50 {
		over := make(chan struct{})
		overs = append(overs, over)
		require.NoError(t, do.Send(t.Context(), ring[n%7], pass(ring, n%7, 400, over)))
	}
	for _, over := range overs {
		testkit.Next(t, over)
	}
}
