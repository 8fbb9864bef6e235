package actor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Context is what a handler is given: a context.Context that ends with the message's deadline or
// with the actor, and the actor's view of the world. It is valid until the handler returns, on the
// handler's goroutine; what it hands out (Self, Proc, Log) may be kept.
type Context struct {
	context.Context
	in       *instance
	delivery *Delivery
	point    shape.Point
	owed     debt        // the answer a Deferred has taken over
	over     atomic.Bool // the handler has returned
}

// senderKey is the key under which an actor's contexts, and all derived from them, name it.
type senderKey struct{}

// Self is the actor's own ID.
func (c *Context) Self() subjects.ActorID { return c.in.id }

// Sender is the actor that sent the message; the zero ID for a foreign client and in a constructor.
func (c *Context) Sender() subjects.ActorID {
	if c.delivery == nil {
		return subjects.ActorID{}
	}
	return c.delivery.From
}

// Point is where this actor stands in the view of the cast that is being handled: its rank and
// coordinates in the slice that was cast to. In a constructor it is the actor's place in its
// mesh; for a direct message it is that of the constructor.
func (c *Context) Point() shape.Point { return c.point }

// Proc is the proc the actor lives in.
func (c *Context) Proc() *Proc { return c.in.proc }

// Log is a logger with the actor's ID in it.
func (c *Context) Log() zerolog.Logger { return c.in.log }

// Go runs work on a goroutine of its own and then, on the actor's turn, the function it returned
// (nil: nothing). This is how an actor does what takes long without blocking. work's context ends
// when the actor stops, and the actor waits for it, 10 s at most; what it returns then is dropped.
// What work sends with its context comes from the actor. A panic of work is the actor's own.
func (c *Context) Go(work func(context.Context) func(*Context)) { c.in.spawnTask(work) }

// After runs f on the actor's turn once d has passed, unless the actor stops before.
func (c *Context) After(d time.Duration, f func(*Context)) {
	c.Go(func(ctx context.Context) func(*Context) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return f
		case <-ctx.Done():
			return nil
		}
	})
}

// Stop asks the actor to stop after the messages it has already accepted.
func (c *Context) Stop(reason string) { c.in.stop(reason) }

// Deferred is an answer that will be given later.
type Deferred[R any] struct {
	once   sync.Once
	in     *instance
	answer func(Answer)
}

// Defer takes over the answer of the message that is being handled: what the handler returns is
// ignored, and the caller waits for Reply. An actor that ends answers what it still owes with
// ErrStopped or ErrFailed. Defer belongs to the handler: called after it has returned, or a second
// time, it takes over nothing and its Reply reaches nobody.
func Defer[R any](ctx *Context) *Deferred[R] {
	d := &Deferred[R]{in: ctx.in}
	if ctx.over.Load() || ctx.owed != nil || !ctx.in.owe(d) {
		ctx.in.log.Error().Msg("Defer a second time, or after the handler had returned")
		return d
	}
	ctx.owed = d
	if ctx.delivery != nil {
		d.answer = ctx.delivery.Answer
	}
	return d
}

// Reply gives the answer. The first call counts; it may come from any goroutine. An error is the
// answer, and the actor lives.
func (d *Deferred[R]) Reply(v R, err error) {
	if err != nil {
		err = ranError(err)
	}
	d.settle(v, err)
}

func (d *Deferred[R]) settle(v any, err error) {
	d.once.Do(func() {
		d.in.settled(d)
		if d.answer != nil {
			d.answer(Answer{Value: v, Err: err})
		}
	})
}

// debt is a Deferred of any type.
type debt interface{ settle(v any, err error) }
