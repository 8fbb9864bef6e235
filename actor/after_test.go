package actor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// on runs a step on an actor's turn.
func on(t *testing.T, ref actor.Ref[*Box], f func(*actor.Context)) {
	t.Helper()
	_, err := do.Call(t.Context(), ref,
		func(ctx *actor.Context, _ *Box) (int64, error) { f(ctx); return 0, nil })
	require.NoError(t, err)
}

func TestAfter_runsAfterItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, began := spawn(t, p), time.Now()
		var ran []time.Duration
		on(t, ref, func(ctx *actor.Context) {
			for _, d := range []time.Duration{3, 1, 0, 2} {
				ctx.After(d*time.Second, func(*actor.Context) { ran = append(ran, time.Since(began)) })
			}
			require.Empty(t, ran, "not on this turn")
		})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		awaitIdle(t, ref)
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, ran)
	})
}

func TestAfter_canRearmItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref := spawn(t, p)
		var ticks int
		var tick func(*actor.Context)
		tick = func(ctx *actor.Context) {
			if ticks++; ticks < 100 {
				ctx.After(time.Second, tick)
			}
		}
		on(t, ref, tick)
		time.Sleep(time.Hour)
		awaitIdle(t, ref)
		require.Equal(t, 100, ticks)
	})
}

func TestAfter_runsBeforeQueuedMail_ACT1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref := spawn(t, p)
		var order []string
		on(t, ref, func(ctx *actor.Context) {
			ctx.After(time.Second, func(*actor.Context) { order = append(order, "alarm") })
		})
		release := blocked(t, ref)
		for range 10 {
			require.NoError(t, do.Send(t.Context(), ref,
				func(*actor.Context, *Box) (int64, error) { order = append(order, "mail"); return 0, nil }))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		release()
		awaitIdle(t, ref)
		require.Len(t, order, 11)
		require.Equal(t, "alarm", order[0])
	})
}

func TestAfter_isCancelledByCancelOrTheActorsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		never := func(*actor.Context) { require.Fail(t, "it was taken back") }
		for _, end := range []func(actor.Ref[*Box]){
			func(ref actor.Ref[*Box]) { <-p.StopActor(ref.ID().Name, "enough") },
			func(ref actor.Ref[*Box]) { <-p.KillActor(ref.ID().Name, "now") },
			func(ref actor.Ref[*Box]) {
				on(t, ref, func(ctx *actor.Context) {
					cancel := ctx.After(time.Second, never)
					cancel()
					cancel()
				})
			},
		} {
			ref := spawn(t, p)
			cleaned := false
			tidy(t, ref, func(ctx *actor.Context, _ error) error {
				ctx.After(0, never)
				cleaned = true
				return nil
			})
			var cancel func()
			on(t, ref, func(ctx *actor.Context) { cancel = ctx.After(time.Second, never) })
			end(ref)
			if status(t, p, ref).Terminal() {
				require.True(t, cleaned)
			}
			cancel()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
	})
}

func TestAfter_errorFailsTheActor(t *testing.T) {
	p := alone(t)
	for want, f := range map[string]func(*actor.Context){
		"panicked: in vain": func(ctx *actor.Context) { ctx.After(0, func(*actor.Context) { panic("in vain") }) },
		"panicked: actor: After: want a delay of 0 or more, got -1ns": func(ctx *actor.Context) {
			ctx.After(0, func(ctx *actor.Context) { ctx.After(-1, nil) })
		},
	} {
		ref, es := spawn(t, p), record(p)
		on(t, ref, f)
		require.Equal(t, want, place.ReplaceAllString(es.end(t, ref.ID().Name).Reason, ""))
	}
}

func TestSendAfter_sendsAfterItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, b := start(t, srv, "left"), start(t, srv, "right")
		ref := spawn(t, a)
		for _, to := range []actor.Ref[*Box]{ref, spawn(t, a), spawn(t, b)} {
			on(t, ref, func(ctx *actor.Context) {
				for _, n := range []int64{3, 1, 0, 2} {
					_, err := add.SendAfter(ctx, time.Duration(n)*time.Second, to, n)
					require.NoError(t, err)
				}
			})
			for n := range int64(4) {
				synctest.Wait()
				got, err := history.Call(t.Context(), to.Via(to.Bound()), actor.None{})
				require.NoError(t, err)
				require.Equal(t, []int64{0, 1, 2, 3}[:n+1], got)
				time.Sleep(time.Second)
			}
		}
	})
}

func TestSendAfter_namesTheActorAsSender(t *testing.T) {
	p := alone(t)
	ref, other := spawn(t, p), spawn(t, p)
	senders := make(chan string, 1)
	on(t, ref, func(ctx *actor.Context) {
		_, err := do.SendAfter(ctx, 0, other,
			func(ctx *actor.Context, _ *Box) (int64, error) { senders <- ctx.Sender().Name; return 0, nil })
		require.NoError(t, err)
	})
	require.Equal(t, ref.ID().Name, testkit.Next(t, senders))
}

func TestSendAfter_isCancelledByCancelOrTheActorsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, other := spawn(t, p), spawn(t, p)
		on(t, ref, func(ctx *actor.Context) {
			for range 2 {
				cancel, err := add.SendAfter(ctx, time.Second, other, 1)
				require.NoError(t, err)
				cancel()
				cancel()
			}
			_, err := add.SendAfter(ctx, time.Minute, other, 1)
			require.NoError(t, err)
		})
		time.Sleep(time.Second)
		<-p.StopActor(ref.ID().Name, "enough")
		time.Sleep(time.Hour)
		got, err := history.Call(t.Context(), other, actor.None{})
		require.NoError(t, err)
		require.Empty(t, got)
	})
}

func TestSendAfter_refusesInvalidArguments(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	on(t, ref, func(ctx *actor.Context) {
		_, err := add.SendAfter(ctx, -1, ref, 1)
		require.EqualError(t, err, ref.ID().String()+": add: a delay of -1ns: want 0 or more")
		_, err = add.SendAfter(ctx, 0, actor.Ref[*Box]{}, 1)
		require.ErrorContains(t, err, "want the ref of an actor, got the zero Ref")
	})
}

func TestSendAfter_returnsAFailedSendAsDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone", mailers())
		other := spawn(t, p)
		from, back := newMailer(t, p)
		_, err := mail.Call(t.Context(), from, func(ctx *actor.Context) error {
			_, err := add.SendAfter(ctx, time.Second, other, 7)
			return err
		})
		require.NoError(t, err)
		<-p.StopActor(other.ID().Name, "enough")
		time.Sleep(time.Second)
		synctest.Wait()
		r := requireDeadLetters(t, 1, from, back)[0]
		require.ErrorIs(t, r.Reason, actor.ErrStopped)
		require.EqualError(t, r.Reason, other.ID().String()+": add: the actor stopped: enough")
		require.Equal(t, []any{"int64", int64(7), from.ID()}, []any{r.Type, r.Message, r.From})
	})
}
