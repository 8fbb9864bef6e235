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
// calls on its own turn: two actors that call each other wait for their deadlines. A call of an
// actor to itself returns ErrInvalid, except with the context of Go.
func (e Endpoint[A, M, R]) Call(ctx context.Context, to Ref[A], m M) (R, error) {
	if to.in != nil && isValid(e.endpointSpec) {
		if o, here := localSender(ctx, to.in, to.via); here {
			if to.in.proc.options.Tracer != nil {
				return callTraced[M, R](ctx, e.endpointSpec, &to.actorRef, m)
			}
			if v, err, ok := callLocal[M, R](ctx, e.endpointSpec, o, to.in, m); ok {
				return v, err
			}
		}
	}
	return callRemote[M, R](ctx, e.endpointSpec, &to.actorRef, m)
}

// callTraced is Call within a proc with a tracer.
//
//go:noinline
func callTraced[M, R any](ctx context.Context, s *endpointSpec, to *actorRef, m M) (R, error) {
	traced, span := to.in.proc.startSpan(ctx, OpAsk, to.id, s.name)
	v, err, ok := callLocal[M, R](traced, s, originOf(traced), to.in, m)
	if !ok {
		v, err = callRemote[M, R](traced, s, to, m)
	}
	endSpan(span, err)
	return v, err
}

// callRemote is Call for an actor not known to be local.
//
//go:noinline
func callRemote[M, R any](ctx context.Context, s *endpointSpec, to *actorRef, m M) (R, error) {
	p, from, err := prepare(ctx, s, to)
	if err != nil {
		var none R
		return none, err
	}
	if p.options.Tracer == nil {
		return DecodeAnswer[R](ask(ctx, p, from, to.id, s.name, m))
	}
	traced, span := p.startSpan(ctx, OpAsk, to.id, s.name)
	v, err := DecodeAnswer[R](ask(traced, p, from, to.id, s.name, m))
	endSpan(span, err)
	return v, err
}

// Send sends m without waiting. A nil error means that a local mailbox has the message, or that it
// is on its way to another proc. If it does not arrive by ctx's deadline (without one: 30 s), or
// comes back later, the sender gets a dead letter (DeadLetterHandler).
func (e Endpoint[A, M, R]) Send(ctx context.Context, to Ref[A], m M) error {
	if to.in != nil && isValid(e.endpointSpec) {
		if o, here := localSender(ctx, to.in, to.via); here {
			if to.in.proc.options.Tracer != nil {
				if traced, span := to.in.proc.startSpan(ctx, OpPost, to.id, e.name); span != nil {
					err := e.Send(traced, to, m)
					endSpan(span, err)
					return err
				}
			}
			if ok, why := send(to.in, e.endpointSpec, queuedMessage[M, R]{m: m, from: o.in, trace: o.trace},
				0); why == nil {
				if ok {
					return nil
				}
			} else if why.Code == CodeMailboxFull || !to.in.isReplaced() {
				return why
			}
		}
	}
	return sendRemote(ctx, e.endpointSpec, &to.actorRef, m, nil)
}

// SendWait is Send with a wait for room, at most until ctx ends (without a deadline: 30 s). To
// another proc it waits while the actor has not taken up 8 MiB of such messages to the endpoint;
// they enter even a full mailbox. An actor waits on its turn: two that wait for each other wait for
// their deadlines. On its turn an actor does not wait for room in its own mailbox.
func (e Endpoint[A, M, R]) SendWait(ctx context.Context, to Ref[A], m M) error {
	if to.in != nil && isValid(e.endpointSpec) {
		if o, here := localSender(ctx, to.in, to.via); here {
			if to.in.proc.options.Tracer != nil {
				if traced, span := to.in.proc.startSpan(ctx, OpPost, to.id, e.name); span != nil {
					err := e.SendWait(traced, to, m)
					endSpan(span, err)
					return err
				}
			}
			ok, why := send(to.in, e.endpointSpec, queuedMessage[M, R]{m: m, from: o.in, trace: o.trace}, 0)
			if ok && why == nil {
				return nil
			} else if ok {
				if o.in == to.in && selfCallError(ctx, to.in, e.name) != nil {
					return why
				}
				again := func(ctx context.Context) error { return e.Send(ctx, to, m) }
				return to.in.proc.awaitRoom(ctx, to.in.proc, to.id.Port(e.name), why, again)
			}
		}
	}
	return sendRemote(ctx, e.endpointSpec, &to.actorRef, m, ctx)
}

// isValid reports whether an endpoint was made by NewEndpoint, with a good name.
func isValid(s *endpointSpec) bool { return s != nil && s.err == nil }

// awaitRoom sends again while a port or an actor of the proc at refuses a message for want of room.
// It returns the last error.
func (p *Proc) awaitRoom(ctx context.Context, at *Proc, to subjects.PortID, err error,
	again func(context.Context) error) error {
	if !errors.Is(err, ErrMailboxFull) {
		return err
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	if from := originOf(ctx).in; from != nil {
		from.yield()
	}
	for errors.Is(err, ErrMailboxFull) {
		if room, _ := at.roomSignal(to.Actor.Name, to.Port, false); room != nil {
			select {
			case <-room:
			case <-ctx.Done():
				return err
			}
		}
		err = again(ctx)
	}
	return err
}

// roomSignal is instance.roomSignal for an open port, or else an actor; false: there is neither.
func (p *Proc) roomSignal(actor, port string, credit bool) (room <-chan struct{}, ok bool) {
	if pt, is := p.ports.find(actor, port).(*funcPort); is {
		if pt.room == nil {
			return nil, true
		}
		return pt.room(credit), true
	}
	in := p.find(actor)
	if in == nil {
		return nil, false
	}
	return in.roomSignal(credit), true
}

// sendRemote is Send for an actor not known to be local. With the context wait it waits for room.
//
//go:noinline
func sendRemote[M any](ctx context.Context, s *endpointSpec, to *actorRef, m M, wait context.Context) error {
	p, from, err := prepare(ctx, s, to)
	if err != nil {
		return err
	}
	if p.options.Tracer != nil {
		if traced, span := p.startSpan(ctx, OpPost, to.id, s.name); span != nil {
			if wait != nil {
				wait = traced
			}
			err := sendRemote(traced, s, to, m, wait)
			endSpan(span, err)
			return err
		}
	}
	if to.id.Proc == p.id {
		q := p.newLocalRequest(ctx, from, to.id.Name, s.name, m)
		_, err := p.inbox.deliver(q.Delivery, q)
		return err
	}
	o := newOutbound(from, to.id.Port(s.name), s.typ)
	o.deadline, _ = ctx.Deadline()
	o.wait = wait
	o.envelope.Wait = wait != nil
	o.envelope.Ext = originOf(ctx).ext()
	buf, err := encode(&p.outbox, &o.envelope, m)
	return p.outbox.sendEncoded(&o, buf, err)
}

// localSender reports whether the target is known to be local to the sender's proc.
func localSender(ctx context.Context, to *instance, via *Proc) (o origin, ok bool) {
	o = originOf(ctx)
	if o.in != nil {
		via = o.in.proc
	}
	return o, via == to.proc
}

// isReplaced reports whether another actor has the name of this one, or none can: the proc has
// failed.
func (in *instance) isReplaced() bool { return in.proc.find(in.name) != in || in.proc.Err() != nil }

// callLocal is Call within a proc, without encoding. ok is false if the actor's endpoint has other
// types, or the address has a new actor.
func callLocal[M, R any](
	ctx context.Context, s *endpointSpec, from origin, to *instance, m M,
) (v R, err error, ok bool) {
	p := to.proc
	if from.in == to {
		if why := selfCallError(ctx, to, s.name); why != nil {
			return v, why, true
		}
	}
	rp := &reply[R]{}
	rp.ctx.origin = origin{to, from.trace}
	var now int64
	done := ctx.Done()
	if done != nil && ctx.Err() != nil {
		return v, fromContext(ctx, to.id().String(), s.name), true
	}
	if end, has := ctx.Deadline(); has { // ctx itself wakes the caller
		rp.ctx.deadline = p.instant(end)
		rp.waiter = p.waiters.get(0)
	} else {
		now = p.now()
		rp.ctx.deadline = now + int64(p.options.Deadline)
		rp.waiter = p.waiters.get(rp.ctx.deadline)
	}
	ok, why := send(to, s, queuedMessage[M, R]{m: m, from: from.in, reply: rp}, now)
	if !ok || why != nil {
		p.waiters.put(rp.waiter)
		if why == nil {
			return v, nil, false
		}
		return v, why, why.Code == CodeMailboxFull || !to.isReplaced()
	}
	if from.in != nil {
		from.in.yield()
	}
	v, err = awaitReply(rp, ctx, done, s.name)
	return v, err, true
}

// prepare returns the sender of a message to an actor.
func prepare(ctx context.Context, s *endpointSpec, to *actorRef) (*Proc, string, error) {
	if to.err != nil {
		return nil, "", to.err
	}
	if to.id.Name == "" { // whatever makes a Ref makes a valid one
		return nil, "", errorf(CodeInvalid, "", s.Name(), "want the ref of an actor, got the zero Ref")
	}
	if err := s.Err(); err != nil {
		return nil, "", errorf(CodeInvalid, to.id.String(), "", "%v", err)
	}
	p, from := senderOf(ctx, to.via)
	if p == nil {
		return nil, "", errorf(CodeInvalid, to.id.String(), s.name,
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
	if in := originOf(ctx).in; in != nil {
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
