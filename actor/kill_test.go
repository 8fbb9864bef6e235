package actor_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// answerWait starts callers of a blocked actor, and returns their answers once all are queued.
func answerWait(t *testing.T, n int, ref actor.Ref[*Box], home *actor.Proc) <-chan error {
	t.Helper()
	info, _ := home.Actor(ref.ID().Name)
	answers := make(chan error, n)
	for range n {
		go func() { answers <- second(add.Call(t.Context(), ref, 1)) }()
	}
	testkit.Until(t, "queued", func() bool {
		now,
			_ := home.Actor(ref.ID().Name)
		return now.Queued == info.Queued+n
	})
	return answers
}

// tidy sets the Cleanup of an actor.
func tidy(t *testing.T, ref actor.Ref[*Box], f func(*actor.Context, error) error) {
	t.Helper()
	_, err := do.Call(t.Context(), ref,
		func(_ *actor.Context, b *Box) (int64, error) { b.cleanup = f; return 0, nil })
	require.NoError(t, err)
}

// end is the one terminal event of an actor.
func (es *events) end(t *testing.T, name string) actor.Event {
	t.Helper()
	var ends []actor.Event
	testkit.Until(t, "the end of "+name, func() bool {
		es.mu.Lock()
		defer es.mu.Unlock()
		ends = nil
		for _, e := range es.all {
			if e.Actor == name && e.Terminal() {
				ends = append(ends, e)
			}
		}
		return len(ends) > 0
	})
	require.Len(t, ends, 1)
	return ends[0]
}

func TestKill_answersEveryCallerWhileAHandlerRuns_ACT5(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		local := actor.RefOf[*Box](ref.ID()).Via(home)
		release := blocked(t, local)
		defer release()
		answers := answerWait(t, 5, ref, home)
		done := home.KillActor(ref.ID().Name, "it hangs")
		for range 5 {
			err := testkit.Next(t, answers)
			require.ErrorIs(t, err, actor.ErrFailed)
			require.EqualError(t, err, ref.ID().String()+": add: the actor failed: killed: it hangs")
			require.True(t, asError(t, err).Undeliverable())
			require.Equal(t, actor.CodeKilled, asError(t, err).Event.Code)
		}
		require.ErrorIs(t, second(add.Call(t.Context(), ref, 1)), actor.ErrFailed, "nobody comes in any more")
		select {
		case <-done:
			require.Fail(t, "its last handler still runs")
		default:
		}
		release()
		testkit.Next(t, done)
		require.Nil(t, home.KillActor("nobody", ""))
	})
}

func TestKill_cancelsTheHandlersContext_ACT5(t *testing.T) {
	p := alone(t)
	ref, entered, causes := spawn(t, p), make(chan struct{}), make(chan error, 1)
	require.NoError(t, do.Send(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		close(entered)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return 0, nil
	}))
	testkit.Next(t, entered)
	done := p.KillActor(ref.ID().Name, "now")
	require.ErrorIs(t, testkit.Next(t, causes), actor.ErrFailed)
	testkit.Next(t, done)
}

func TestClose_namesAKilledActorWithAHungHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, es := spawn(t, p), record(p)
		release := blocked(t, ref)
		p.KillActor(ref.ID().Name, "it hangs")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.EqualError(t, p.Close(ctx), ref.ID().String()+" did not stop: its handler of do has not returned")
		require.Empty(t, es.of(ref.ID().Name))
		release()
		synctest.Wait()
		require.Equal(t, []string{"failed"}, es.of(ref.ID().Name))
	})
}

func TestCall_errorNamesTheActorsEndAndItsCause_DEL5(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		local := actor.RefOf[*Box](ref.ID()).Via(home)
		kid := child(t, local, actor.RestartPolicy{})
		release := blocked(t, local)
		defer release()
		answers := answerWait(t, 1, ref, home)
		_, err := boom.Call(t.Context(), kid, "crash test")
		require.ErrorIs(t, err, actor.ErrPanic)
		testkit.Next(t, home.Done(kid.ID().Name))
		release()
		err = testkit.Next(t, answers)
		require.ErrorIs(t, err, actor.ErrFailed)
		e := asError(t, err).Event
		require.NotNil(t, e)
		at := home.ID()
		require.Equal(t, at, e.Proc())
		require.Equal(t, []any{"actor", "failed", ref.ID().Name, "box", "", actor.CodeCascade},
			[]any{e.Kind, e.Status, e.Actor, e.Type, e.Endpoint, e.Code})
		root := e.RootCause()
		require.Equal(t, at, root.Proc())
		require.Equal(t, []any{"actor", "failed", kid.ID().Name, "box", "boom", actor.CodePanic,
			"boom: panicked: crash test"},
			[]any{root.Kind, root.Status, root.Actor, root.Type, root.Endpoint, root.Code,
				place.ReplaceAllString(root.Reason, "")})
		require.Equal(t, "actor "+ref.ID().String()+" (type box) failed: its child "+kid.ID().Name+
			" failed: boom: panicked: crash test\n"+
			"  caused by: actor "+kid.ID().String()+" (type box) failed: boom: panicked: crash test",
			place.ReplaceAllString(e.Report(), ""))
	})
}

func TestPanic_anyValueFailsOnlyItsActor_ACT2(t *testing.T) {
	p := alone(t)
	nobody, empty, one := (*Box)(nil), []int{}, 1
	for want, f := range map[string]func(){
		"panicked: a text":                         func() { panic("a text") },
		"panicked: an error":                       func() { panic(errors.New("an error")) },
		"panicked: 7":                              func() { panic(7) },
		"panicked: {1 2}":                          func() { panic(struct{ a, b int }{1, 2}) },
		"ended its goroutine":                      func() { runtime.Goexit() },
		"panicked: panic called with nil argument": func() { panic(any(nil)) },
		"panicked: runtime error: index out of range [1] with length 0": func() { empty[one]++ },
		"panicked: runtime error: invalid memory address":               func() { nobody.n++ },
	} {
		panics := strings.HasPrefix(want, "panicked: ")
		for _, end := range []bool{false, true} {
			ref, es := spawn(t, p), record(p)
			endpoint := "do: "
			if end {
				endpoint = ""
				tidy(t, ref, func(*actor.Context, error) error { f(); return nil })
				p.StopActor(ref.ID().Name, "enough")
			} else {
				_, err := do.Call(testkit.Soon(t), ref, func(*actor.Context, *Box) (int64, error) { f(); return 0, nil })
				require.ErrorIs(t, err, actor.ErrPanic)
				require.ErrorContains(t, err, want)
				require.Equal(t, panics, strings.Contains(err.Error(), " (actor/kill_test.go:"), err)
			}
			e := es.end(t, ref.ID().Name)
			require.Equal(t, actor.CodePanic, e.Code)
			require.Contains(t, e.Reason, endpoint+want)
			require.Equal(t, panics, strings.Contains(e.Reason, " (actor/kill_test.go:"), e.Reason)
		}
	}
}

func TestCleanup_receivesTheReasonOfTheEnd(t *testing.T) {
	p := alone(t)
	for want, end := range map[string]func(actor.Ref[*Box]){
		"<nil>":                         func(ref actor.Ref[*Box]) { p.StopActor(ref.ID().Name, "enough") },
		"the actor failed: killed: now": func(ref actor.Ref[*Box]) { p.KillActor(ref.ID().Name, "now") },
		"the actor failed: fail: a bad post": func(
			ref actor.Ref[*Box]) {
			require.NoError(t, fail.Send(t.Context(), ref, "a bad post"))
		},
	} {
		ref, causes := spawn(t, p), make(chan error, 2)
		tidy(t, ref, func(_ *actor.Context, cause error) error { causes <- cause; return nil })
		end(ref)
		cause := testkit.Next(t, causes)
		if want == "<nil>" {
			require.NoError(t, cause)
		} else {
			require.EqualError(t, cause, ref.ID().String()+": "+want)
		}
		testkit.Next(t, p.Done(ref.ID().Name))
		require.Empty(t, causes, "it runs once")
	}
}

func TestCleanup_errorFailsAStoppingActor(t *testing.T) {
	p := alone(t)
	ref, es := spawn(t, p), record(p)
	tidy(t, ref, func(*actor.Context, error) error { return errors.New("the disk is full") })
	testkit.Next(t, p.StopActor(ref.ID().Name, "enough"))
	e := es.end(t, ref.ID().Name)
	require.Equal(t, "failed", e.Status)
	require.Equal(t, "cleanup: the disk is full", e.Reason)
}

func TestCleanup_errorAfterAFailureIsIgnored(t *testing.T) {
	p := alone(t)
	ref, es := spawn(t, p), record(p)
	tidy(t, ref, func(*actor.Context, error) error { return errors.New("the disk is full") })
	testkit.Next(t, p.KillActor(ref.ID().Name, "now"))
	require.Equal(t, "killed: now", es.end(t, ref.ID().Name).Reason)
}

func TestCleanup_isSkippedAfterAPanicOrWithoutState(t *testing.T) {
	strict := actor.NewType[*Box, error]("strict")
	cleaned := make(chan struct{}, 2)
	p := alone(t, strict.Define(func(_ *actor.Context, err error) (*Box, error) {
		return &Box{cleanup: func(*actor.Context, error) error { cleaned <- struct{}{}; return nil }}, err
	}, boom.Handle((*Box).boom)))
	_, err := actor.Spawn(t.Context(), p, strict, "box", errors.New("not today"))
	require.ErrorContains(t, err, "actor type strict: not today")
	ref, err := actor.Spawn(t.Context(), p, strict, "box", nil)
	require.NoError(t, err)
	_, err = boom.Call(t.Context(), ref, "crash test")
	require.ErrorIs(t, err, actor.ErrPanic)
	testkit.Next(t, p.Done(ref.ID().Name))
	require.Empty(t, cleaned)
}

func TestCleanup_has10sAfterSlowChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		parent := spawn(t, p)
		kid := child(t, parent, actor.RestartPolicy{})
		release := blocked(t, kid)
		began := time.Now()
		var end time.Time
		var after error
		tidy(t, parent, func(ctx *actor.Context, _ error) error {
			end, _ = ctx.Deadline()
			<-ctx.Done()
			after = ctx.Err()
			return nil
		})
		<-p.StopActor(parent.ID().Name, "enough")
		require.Equal(t, 20*time.Second, end.Sub(began))
		lasted(t, 20*time.Second, began)
		require.ErrorIs(t, after, context.DeadlineExceeded)
		release()
	})
}
