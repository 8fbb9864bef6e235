package actor

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// Go runs work on a goroutine of its own and then, on the actor's turn, the function it returned
// (nil: nothing). This is how an actor does what takes long without blocking. work's context ends
// when the actor stops, and the actor waits for it, 10 s at most; what it returns then is dropped.
// What work sends with its context comes from the actor. A panic of work is the actor's own.
func (c *Context) Go(work func(context.Context) func(*Context)) {
	mustBe(work != nil, "Go", "a function, got nil")
	in := c.in
	life := in.life()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over || in.state.terminal() { // it starts nothing any more
		return
	}
	tasks := &in.rarely().tasks
	tasks.n.Add(1)
	in.proc.turns.run(func() {
		defer tasks.done()
		defer func() {
			if p := recover(); p != nil { // ACT-2
				log, text := in.log(), wire.PanicText(p)
				log.Error().Bytes("stack", debug.Stack()).Msg("a task of the actor panicked: " + text)
				in.fail(ending{code: CodePanic, reason: "a task panicked: " + text})
			}
		}()
		if f := work(life); f != nil {
			in.post(f)
		}
	})
}

// mustBe panics when a program calls what it cannot mean; in a handler that fails the actor.
func mustBe(ok bool, what, want string) {
	if !ok {
		panic("actor: " + what + ": want " + want)
	}
}

// alarm is something an actor is to do later. It costs no goroutine.
type alarm struct{ timer *time.Timer }

// After runs f on the actor's turn, before its mail, once d has passed by the monotonic clock, unless
// the actor stops before or cancel is called. d must not be negative.
func (c *Context) After(d time.Duration, f func(*Context)) (cancel func()) {
	mustBe(d >= 0, "After", "a delay of 0 or more, got "+d.String())
	mustBe(f != nil, "After", "a function, got nil")
	var off atomic.Bool
	quit := c.in.later(d, func() {
		c.in.post(func(ctx *Context) {
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

// PostAfter sends m to an actor, often to the one whose Context ctx is, no sooner than d from now by
// the monotonic clock. Until then cancel takes it back, and so does the end of the actor. d must not
// be negative; 0 is possible. What becomes of the message is what becomes of a Post; an error that
// Post returns reaches the actor as a message that came back (Undeliverer).
func (e Endpoint[A, M, R]) PostAfter(ctx *Context, d time.Duration, to Ref[A], m M) (cancel func(), err error) {
	if d < 0 {
		return nil, errorf(CodeInvalid, to.id.String(), e.Name(), "a delay of %s: want 0 or more", d)
	}
	if _, _, err := e.prepare(ctx, &to); err != nil {
		return nil, err
	}
	in := ctx.in
	return in.later(d, func() {
		if err := e.Post(in.life(), to, m); err != nil {
			in.proc.comeBack(in, typeName[M](), m, plainError(err))
		}
	}), nil
}

// later runs f, which must not block, on a goroutine of its own once d has passed, while the actor
// lives.
func (in *instance) later(d time.Duration, f func()) (cancel func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over || in.state.terminal() {
		return func() {}
	}
	r := in.rarely()
	if r.alarms == nil {
		r.alarms = map[*alarm]struct{}{}
	}
	a := &alarm{}
	r.alarms[a] = struct{}{}
	take := func() bool {
		in.mu.Lock()
		defer in.mu.Unlock()
		_, there := in.rare.alarms[a]
		delete(in.rare.alarms, a)
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
