package actor

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// DefaultDeadline is the timeout of a verb if neither its context nor its proc (Options) sets one.
const DefaultDeadline = 30 * time.Second

// clientName is the sender name of code that is not an actor.
const clientName = "client"

// Call sends m and waits for the answer, at most until ctx ends (without a deadline: 30 s). The
// sender is the actor that ctx belongs to or derives from, else the client of the ref's proc.
// Errors are *Error; compare with the sentinels by errors.Is.
//
// If the actor dies meanwhile, Call fails at once, with the actor's end in Error.Event. An actor
// calls on its own turn: two actors that call each other wait for their deadlines.
func (e Endpoint[A, M, R]) Call(ctx context.Context, to Ref[A], m M) (R, error) {
	if to.in != nil && e.d != nil && e.d.err == nil {
		if from, here := localSender(ctx, to.in, to.via); here {
			if v, err, ok := e.callLocal(ctx, from, to.in, m); ok {
				return v, err
			}
		}
	}
	return e.callRemote(ctx, &to, m)
}

// callRemote is Call for an actor not known to be local.
//
//go:noinline
func (e Endpoint[A, M, R]) callRemote(ctx context.Context, to *Ref[A], m M) (R, error) {
	p, from, err := e.prepare(ctx, to)
	if err != nil {
		var none R
		return none, err
	}
	return DecodeAnswer[R](ask(ctx, p, from, to.id, e.d.name, m))
}

// Send sends m without waiting. A nil error means that a local mailbox has the message, or that it
// is on its way to another proc. If it does not arrive by ctx's deadline (without one: 30 s), or
// comes back later, the sender gets a dead letter (DeadLetterHandler).
func (e Endpoint[A, M, R]) Send(ctx context.Context, to Ref[A], m M) error {
	if to.in != nil && e.d != nil && e.d.err == nil {
		if from, here := localSender(ctx, to.in, to.via); here {
			if ok, why := send(to.in, &e.d.endpointSpec, queuedMessage[M, R]{m: m, from: from},
				0); why == nil {
				if ok {
					return nil
				}
			} else if why.Code == CodeMailboxFull || !to.in.isReplaced() {
				return why
			}
		}
	}
	return e.sendRemote(ctx, &to, m, false)
}

// SendWait is Send with a wait for room, at most until ctx ends (without a deadline: 30 s). To
// another proc it waits while 8 MiB of such messages there are unconsumed; they enter even a full
// mailbox. An actor waits on its turn: two that wait for each other wait for their deadlines.
func (e Endpoint[A, M, R]) SendWait(ctx context.Context, to Ref[A], m M) error {
	if to.in != nil && e.d != nil && e.d.err == nil {
		if from, here := localSender(ctx, to.in, to.via); here {
			ok, why := send(to.in, &e.d.endpointSpec, queuedMessage[M, R]{m: m, from: from}, 0)
			if ok && why == nil {
				return nil
			} else if ok {
				return e.sendWaitLocal(ctx, &to, m, why)
			}
		}
	}
	return e.sendRemote(ctx, &to, m, true)
}

// sendWaitLocal waits for room in a local mailbox.
//
//go:noinline
func (e Endpoint[A, M, R]) sendWaitLocal(ctx context.Context, to *Ref[A], m M, why *Error) error {
	err := error(why)
	ctx, cancel := to.in.proc.bounded(ctx)
	defer cancel()
	if from, ok := ctx.Value(senderKey{}).(*instance); ok {
		from.yield()
	}
	for errors.Is(err, ErrMailboxFull) {
		if room := to.in.roomSignal(); room != nil {
			select {
			case <-room:
			case <-ctx.Done():
				return err
			}
		}
		err = e.Send(ctx, *to, m)
	}
	return err
}

// sendRemote is Send for an actor not known to be local.
//
//go:noinline
func (e Endpoint[A, M, R]) sendRemote(ctx context.Context, to *Ref[A], m M, wait bool) error {
	p, from, err := e.prepare(ctx, to)
	if err != nil {
		return err
	}
	if to.id.Proc == p.id {
		return p.sendUntyped(from, to.id.Port(e.d.name), m)
	}
	deadline, _ := ctx.Deadline()
	if !wait {
		return sendRemote(p, from, to.id, e.d.name, e.d.typ, m, deadline, nil)
	}
	return sendRemote(p, from, to.id, e.d.name, e.d.typ, m, deadline, ctx)
}

// localSender reports whether the target is known to be local to the sender's proc. from is the
// sending actor; nil for the client.
func localSender(ctx context.Context, to *instance, via *Proc) (from *instance, ok bool) {
	if c, is := ctx.(*Context); is {
		from = c.in
	} else {
		from, _ = ctx.Value(senderKey{}).(*instance)
	}
	if from != nil {
		via = from.proc
	}
	return from, via == to.proc
}

// isReplaced reports whether another actor has the name of this one, or none can: the proc has
// failed.
func (in *instance) isReplaced() bool { return in.proc.find(in.name) != in || in.proc.Err() != nil }

// callLocal is Call within a proc, without encoding. ok is false if the actor's endpoint has other
// types, or the address has a new actor.
func (e Endpoint[A, M, R]) callLocal(ctx context.Context, from, to *instance, m M) (v R, err error, ok bool) {
	p := to.proc
	rp := &reply[R]{}
	rp.ctx.in = to
	var now int64
	done := ctx.Done()
	if done != nil && ctx.Err() != nil {
		return v, fromContext(ctx, to.id().String(), e.d.name), true
	}
	if end, has := ctx.Deadline(); has { // ctx itself wakes the caller
		rp.ctx.deadline = p.instant(end)
		rp.waiter = p.waiters.get(0)
	} else {
		now = p.now()
		rp.ctx.deadline = now + int64(p.options.Deadline)
		rp.waiter = p.waiters.get(rp.ctx.deadline)
	}
	ok, why := send(to, &e.d.endpointSpec, queuedMessage[M, R]{m: m, from: from, reply: rp}, now)
	if !ok || why != nil {
		p.waiters.put(rp.waiter)
		if why == nil {
			return v, nil, false
		}
		return v, why, why.Code == CodeMailboxFull || !to.isReplaced()
	}
	if from != nil {
		from.yield()
	}
	v, err = rp.wait(ctx, done, e.d.name)
	return v, err, true
}

func (e Endpoint[A, M, R]) prepare(ctx context.Context, to *Ref[A]) (*Proc, string, error) {
	if to.err != nil {
		return nil, "", to.err
	}
	if to.id.Name == "" { // whatever makes a Ref makes a valid one
		return nil, "", errorf(CodeInvalid, "", e.Name(), "want the ref of an actor, got the zero Ref")
	}
	if err := e.Err(); err != nil {
		return nil, "", errorf(CodeInvalid, to.id.String(), "", "%v", err)
	}
	p, from := senderOf(ctx, to.via)
	if p == nil {
		return nil, "", errorf(CodeInvalid, to.id.String(), e.d.name,
			"no sender: call from an actor's handler with its Context, or bind the ref with Via")
	}
	return p, from, p.checkSend(from)
}

// Sender returns the sender of ctx: the actor that ctx belongs to or derives from, else the client
// of via. The proc is nil if there is neither. The error is that of a failed proc, whose client may
// not send.
func Sender(ctx context.Context, via *Proc) (p *Proc, name string, err error) {
	p, name = senderOf(ctx, via)
	if p != nil {
		err = p.checkSend(name)
	}
	return p, name, err
}

func senderOf(ctx context.Context, via *Proc) (*Proc, string) {
	if in, ok := ctx.Value(senderKey{}).(*instance); ok {
		return in.proc, in.name
	}
	return via, clientName
}

// bounded gives a wait the proc's deadline when it has none.
func (p *Proc) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.options.Deadline)
}

// now is the proc's clock: nanoseconds since its start, independent of the wall clock.
func (p *Proc) now() int64 { return int64(time.Since(p.epoch)) }

// instant is a point in time by the proc's clock.
func (p *Proc) instant(t time.Time) int64 { return max(1, int64(t.Sub(p.epoch))) }

// actorID names an actor of this proc; the client when it is nil.
func (p *Proc) senderID(from *instance) subjects.ActorID {
	if from == nil {
		return p.id.Actor(clientName)
	}
	return from.id()
}
