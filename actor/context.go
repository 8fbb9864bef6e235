package actor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Context is the argument of a handler: a context.Context that ends with the message's deadline or
// with the actor, and the handler's access to its actor. It is valid until the handler returns, on
// the handler's goroutine. As a context.Context it may be kept, and so may the values of Self, Proc
// and Log.
type Context struct {
	origin
	from        *instance  // the actor that sent the message, when in this proc
	answer      answerSink // the waiting caller, or the request; nil: neither
	deferred    *deferred  // the answer, once a Deferred has taken it over
	deadline    int64      // the deadline, by Proc.now; 0: none
	local       bool       // it is of a message of this process
	deadlineCtx atomic.Pointer[deadlineContext]
	returned    atomic.Bool // the handler has returned
	cancelled   atomic.Bool // the caller stopped waiting
	delivery    *Delivery   // the message, when it is not a typed one of this proc
}

// answerSink receives an answer. The first answer counts; it may come on any goroutine.
type answerSink interface{ complete(v any, err error) }

// deadlineContext is the context of a message with a deadline or a span, created on first use.
type deadlineContext struct {
	context.Context
	cancel context.CancelFunc // nil: it ends with the actor
}

// unusedSpan stands for the context of a span until first use.
type unusedSpan struct {
	context.Context // nil
	span            Span
}

// base is the context behind this one.
func (c *Context) base() context.Context {
	d := c.deadlineCtx.Load()
	var unused *unusedSpan
	if d != nil {
		if unused, _ = d.Context.(*unusedSpan); unused == nil {
			return d
		}
	}
	own := deadlineContext{Context: c.in.lifetime()}
	switch {
	case c.deadline != 0:
		own.Context, own.cancel = context.WithDeadline(own.Context, c.in.proc.epoch.Add(time.Duration(c.deadline)))
	case c.canBeCancelled():
		own.Context, own.cancel = context.WithCancel(own.Context)
	case unused == nil:
		return own.Context
	}
	if unused != nil {
		own.Context = unused.span.Context(own.Context)
	}
	if !c.deadlineCtx.CompareAndSwap(d, &own) || c.returned.Load() || c.cancelled.Load() {
		own.end()
	}
	return c.deadlineCtx.Load()
}

// canBeCancelled reports whether the caller can give up before the deadline. A kept Context of a
// send is of later sends, too, so only their turn reads its message.
func (c *Context) canBeCancelled() bool {
	q, is := c.answer.(*request)
	return is && q.pending != nil
}

// end ends the context, if the message can end before the actor.
func (d *deadlineContext) end() {
	if d != nil && d.cancel != nil {
		d.cancel()
	}
}

// finish ends the context after its handler has returned.
func (c *Context) finish() {
	c.returned.Store(true)
	c.deadlineCtx.Load().end()
}

// cancel ends the context while its handler runs.
func (c *Context) cancel() {
	c.cancelled.Store(true)
	c.deadlineCtx.Load().end()
}

// Deadline is the message's; false when it has none.
func (c *Context) Deadline() (time.Time, bool) {
	if c.deadline == 0 {
		return time.Time{}, false
	}
	return c.in.proc.epoch.Add(time.Duration(c.deadline)), true
}

// Done is closed when the handler should give up: the deadline has passed, the caller stopped
// waiting, or the actor was killed or failed. It is also closed after the return of a handler with
// a waiting caller.
func (c *Context) Done() <-chan struct{} { return c.base().Done() }

// Err returns the reason why Done is closed.
func (c *Context) Err() error { return c.base().Err() }

// Value names the actor and the trace to this package, and the span of the handler to its tracer.
func (c *Context) Value(key any) any {
	switch key {
	case originKey{}:
		return &c.origin
	case turnKey{}:
		return c.in
	}
	return c.base().Value(key)
}

// turnKey is the context key of the *instance whose turn a Context belongs to. Contexts derived
// from a Context inherit it; those of tasks do not have it.
type turnKey struct{}

// selfCallError is the error of a wait of an actor for itself on its turn; nil: it is none.
func selfCallError(ctx context.Context, to *instance, endpoint string) *Error {
	if in, _ := ctx.Value(turnKey{}).(*instance); in != to {
		return nil
	}
	return errorf(CodeInvalid, to.id().String(), endpoint,
		"the actor would wait for itself: call it in Context.Go, with the context of the work")
}

// lifetime returns the context of the actor. It ends when the actor must give up, and names the
// actor as the sender.
func (in *instance) lifetime() context.Context {
	in.mu.Lock()
	defer in.mu.Unlock()
	r := in.ensureExtra()
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancelCause(origin{in: in}.context(context.Background()))
		if in.aborted || in.state.terminal() {
			r.cancel(in.endError())
		}
	}
	return r.ctx
}

// Self is the actor's own ID.
func (c *Context) Self() subjects.ActorID { return c.in.id() }

// Sender is the actor that sent the message, or the client of its proc. It is the zero ID for a
// foreign client, and where there is no message.
func (c *Context) Sender() subjects.ActorID {
	switch {
	case c.delivery != nil:
		return c.delivery.From
	case c.from != nil:
		return c.from.id()
	case c.local:
		return c.in.proc.id.Actor(clientName)
	}
	return subjects.ActorID{}
}

// Point is the actor's rank and coordinates in the slice of the current cast. In a constructor it
// is the actor's place in its mesh; a direct message keeps that place.
func (c *Context) Point() shape.Point {
	if d := c.delivery; d != nil && d.Point != nil {
		return d.Point(c.answer.(*request).view)
	}
	if b := c.in.spawn; b != nil && b.spec != nil {
		return b.spec.Point
	}
	return shape.Point{}
}

// Proc returns the proc of the actor.
func (c *Context) Proc() *Proc { return c.in.proc }

// Parent is the ID of the actor's parent; the zero ID if it has none.
func (c *Context) Parent() subjects.ActorID {
	if c.in.parent == nil {
		return subjects.ActorID{}
	}
	return c.in.parent.id()
}

// Log is the logger of the proc (Options.Log), with the actor's ID. In procs of a mesh it writes to
// stderr from the level proc.log-level on: warn, unless configured. For output at every level an
// actor has a logger of its own.
func (c *Context) Log() *zerolog.Logger { return c.in.log() }

// Fail ends the actor as failed because of another actor or proc. cause is the event of that
// failure, or nil. The messages in its mailbox are not handled (ACT-5).
func (c *Context) Fail(reason string, cause *Event) {
	c.in.fail(ending{code: CodeCascade, reason: reason, cause: cause})
}

// Stop asks the actor to stop after the messages it has already accepted.
func (c *Context) Stop(reason string) { c.in.stop(reason) }
