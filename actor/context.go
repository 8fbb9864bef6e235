package actor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Context is what a handler is given: a context.Context that ends with the message's deadline or
// with the actor, and the actor's view of the world. It is valid until the handler returns, on the
// handler's goroutine; as a context.Context, and what it hands out (Self, Proc, Log), it may be
// kept.
type Context struct {
	in     *instance
	from   *instance // the actor that sent the message, when in this proc
	answer answerer  // who waits, or the Delivery; nil: neither
	owed   debt      // the answer, once a Deferred has taken it over
	until  int64     // the deadline, by Proc.now; 0: none
	mail   bool      // it is of a message of this process
	own    atomic.Pointer[deadlined]
	over   atomic.Bool // the handler has returned
	gone   atomic.Bool // who asked waits no longer
	far    *farRun     // it is of a message that another process posted
}

// answerer is whoever waits for an answer. The first answer counts; it may come on any goroutine.
type answerer interface{ settle(v any, err error) }

// senderKey is the key under which an actor's contexts, and all derived from them, name it.
type senderKey struct{}

// deadlined is the context of a message that has a deadline, made when somebody looks at it.
type deadlined struct {
	context.Context
	cancel context.CancelFunc
}

// real is the context behind this one.
func (c *Context) real() context.Context {
	if c.until == 0 && !c.canBeGivenUp() {
		return c.in.life()
	}
	if d := c.own.Load(); d != nil {
		return d
	}
	ctx, cancel := context.WithCancel(c.in.life())
	if c.until != 0 {
		cancel()
		ctx, cancel = context.WithDeadline(c.in.life(), c.in.proc.epoch.Add(time.Duration(c.until)))
	}
	if !c.own.CompareAndSwap(nil, &deadlined{ctx, cancel}) || c.over.Load() || c.gone.Load() {
		cancel()
	}
	return c.own.Load()
}

// canBeGivenUp reports whether who asked may say that he waits no longer.
func (c *Context) canBeGivenUp() bool {
	if t := c.fanned(); t != nil {
		return t.fan.among != nil
	}
	d := c.delivery()
	return d != nil && d.wanted != nil && d.wanted.among != nil
}

// delivery is the message, when it did not come from a typed sender of this process.
func (c *Context) delivery() *Delivery {
	d, _ := c.answer.(*Delivery)
	return d
}

// fanned is its place in a message that went to many.
func (c *Context) fanned() *fanTurn {
	t, _ := c.answer.(*fanTurn)
	return t
}

// end ends what the handler was given.
func (c *Context) end() {
	c.over.Store(true)
	if d := c.own.Load(); d != nil {
		d.cancel()
	}
}

// cancel ends what the handler was given, while it runs.
func (c *Context) cancel() {
	c.gone.Store(true)
	if d := c.own.Load(); d != nil {
		d.cancel()
	}
}

// Deadline is the message's; false when it has none.
func (c *Context) Deadline() (time.Time, bool) {
	if c.until == 0 {
		return time.Time{}, false
	}
	return c.in.proc.epoch.Add(time.Duration(c.until)), true
}

// Done is closed when the handler is to give up: the deadline has passed, who asked waits no longer, or
// the actor was killed or has failed. After a handler that was waited for has returned, it is closed, too.
func (c *Context) Done() <-chan struct{} { return c.real().Done() }

// Err says why Done is closed.
func (c *Context) Err() error { return c.real().Err() }

// Value names the actor to this package; the context holds nothing else.
func (c *Context) Value(key any) any {
	if key == (senderKey{}) {
		return c.in
	}
	return c.real().Value(key)
}

// life is the context of the actor: it ends when the actor is told to give up, and names the actor
// as the sender.
func (in *instance) life() context.Context {
	in.mu.Lock()
	defer in.mu.Unlock()
	r := in.rarely()
	if r.life == nil {
		r.life, r.giveUp = context.WithCancelCause(context.WithValue(context.Background(), senderKey{}, in))
		if in.over || in.state.terminal() {
			r.giveUp(in.why())
		}
	}
	return r.life
}

// Self is the actor's own ID.
func (c *Context) Self() subjects.ActorID { return c.in.id() }

// Sender is the actor that sent the message, or the client of its proc; the zero ID for a foreign
// client and where there is no message.
func (c *Context) Sender() subjects.ActorID {
	switch {
	case c.delivery() != nil:
		return c.delivery().From
	case c.fanned() != nil:
		return c.fanned().fan.From
	case c.from != nil:
		return c.from.id()
	case c.far != nil:
		return c.far.from
	case c.mail:
		return c.in.proc.id.Actor(clientName)
	}
	return subjects.ActorID{}
}

// Point is where this actor stands in the view of the cast that is being handled: its rank and
// coordinates in the slice that was cast to. In a constructor it is the actor's place in its
// mesh; for a direct message it is that of the constructor.
func (c *Context) Point() shape.Point {
	if d := c.delivery(); d != nil && !d.Point.Extent().Equal(shape.Unit()) { // a cast, not a direct message
		return d.Point
	}
	if t := c.fanned(); t != nil {
		return t.fan.Point(t.view)
	}
	if c.in.birth != nil {
		return c.in.birth.Point
	}
	return shape.Point{}
}

// Proc is the proc the actor lives in.
func (c *Context) Proc() *Proc { return c.in.proc }

// Log is a logger with the actor's ID in it.
func (c *Context) Log() zerolog.Logger { return c.in.log() }

// Fail ends the actor as failed, because of what somebody else did: cause, when it is known, is the event
// that says so. Nothing that waits in its mailbox is handled (ACT-5).
func (c *Context) Fail(reason string, cause *Event) {
	c.in.fail(ending{code: CodeCascade, reason: reason, cause: cause})
}

// Stop asks the actor to stop after the messages it has already accepted.
func (c *Context) Stop(reason string) { c.in.stop(reason) }
