package actor

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Go runs work on a goroutine of its own, and then the function it returned (nil: nothing) on the
// actor's turn. Use it for long work without blocking the actor. work's context ends when the actor
// stops. The actor waits for work, 10 s at most, and drops its function.
//
// After Defer, work and its function belong to the accepted message: a stopping actor runs both as
// if it did not stop, until the answer, 10 s at most. This includes later work of the function.
//
// Messages sent with work's context come from the actor, with the trace of the current message. A
// panic of work fails the actor.
func (c *Context) Go(work func(context.Context) func(*Context)) {
	mustHold(work != nil, "Go", "a function, got nil")
	in := c.in
	life := c.lifetimeWithTrace()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.aborted || in.state.terminal() { // it starts no more tasks
		return
	}
	tasks := &in.ensureExtra().tasks
	tasks.n.Add(1)
	message := c.deferred
	if message != nil {
		message.tasks++
	}
	in.proc.workers.run(func() {
		defer tasks.done()
		defer func() {
			if p := recover(); p != nil { // ACT-2
				text := panicText(p)
				in.log().Error().Bytes("stack", debug.Stack()).Msg("a task of the actor panicked: " + text)
				in.fail(ending{code: CodePanic, reason: "a task panicked: " + text})
			}
		}()
		if f := work(life); f != nil {
			in.runSoon(func(ctx *Context) {
				ctx.deferred = message
				f(ctx)
			})
		}
		in.endTaskOf(message)
	})
}

// mustHold panics on an invalid call; in a handler that fails the actor.
func mustHold(ok bool, what, want string) {
	if !ok {
		panic("actor: " + what + ": want " + want)
	}
}

// delayedCall is something an actor is to do later. It costs no goroutine.
type delayedCall struct{ timer *time.Timer }

// After runs f on the actor's turn, before its mail, once d has passed by the monotonic clock,
// unless the actor stops before or cancel is called. d must not be negative.
func (c *Context) After(d time.Duration, f func(*Context)) (cancel func()) {
	mustHold(d >= 0, "After", "a delay of 0 or more, got "+d.String())
	mustHold(f != nil, "After", "a function, got nil")
	var off atomic.Bool
	quit := c.in.afterFunc(d, func() {
		c.in.runSoon(func(ctx *Context) {
			if !off.Load() { // it may have been taken back while it was due
				f(ctx)
			}
		})
	})
	return func() {
		off.Store(true)
		quit()
	}
}

// SendAfter sends m to an actor, often the one of ctx itself, no sooner than d from now by the
// monotonic clock. cancel and the end of the actor take the message back until then. d must not be
// negative; 0 is possible. The message has the same fates as with Send; an error of that Send comes
// back as a dead letter (DeadLetterHandler).
func (e Endpoint[A, M, R]) SendAfter(ctx *Context, d time.Duration, to Ref[A],
	m M) (cancel func(), err error) {
	if d < 0 {
		return nil, errorf(CodeInvalid, to.id.String(), e.Name(), "a delay of %s: want 0 or more", d)
	}
	if _, _, err := prepare(ctx, e.endpointSpec, &to.actorRef); err != nil {
		return nil, err
	}
	in := ctx.in
	life := ctx.lifetimeWithTrace()
	return in.afterFunc(d, func() {
		if err := e.Send(life, to, m); err != nil {
			in.proc.deadLetters.bounce(in, e.typ, m, asError(err))
		}
	}), nil
}

// afterFunc runs f on a goroutine of its own once d has passed, while the actor lives. f must not
// block.
func (in *instance) afterFunc(d time.Duration, f func()) (cancel func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.afterFuncLocked(d, f)
}

// afterFuncLocked is afterFunc with the lock held.
func (in *instance) afterFuncLocked(d time.Duration, f func()) (cancel func()) {
	if in.aborted || in.state.terminal() {
		return func() {}
	}
	r := in.ensureExtra()
	if r.timers == nil {
		r.timers = map[*delayedCall]struct{}{}
	}
	a := &delayedCall{}
	r.timers[a] = struct{}{}
	take := func() bool {
		in.mu.Lock()
		defer in.mu.Unlock()
		_, there := in.extra.timers[a]
		delete(in.extra.timers, a)
		return there
	}
	a.timer = time.AfterFunc(d, func() {
		if take() {
			f()
		}
	})
	return func() {
		if take() {
			a.timer.Stop()
		}
	}
}
