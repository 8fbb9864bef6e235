package actor

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// DefaultDeadline is how long a verb waits when neither its context nor its proc (Options) says how long.
const DefaultDeadline = 30 * time.Second

// clientName is the name under which code that is not an actor sends and is answered.
const clientName = "client"

// Call sends m and waits for the answer, at most until ctx ends (without a deadline: 30 s). The
// sender is the actor whose Context ctx is or derives from, else the client of the proc the ref
// is bound to. Errors are *Error; errors.Is with the sentinels tells them apart. When the actor
// dies meanwhile Call fails at once, and the error holds its end (Error.Event). An actor that calls
// waits on its own turn: two actors that call each other wait for their deadlines.
func (e Endpoint[A, M, R]) Call(ctx context.Context, to Ref[A], m M) (R, error) {
	if to.in != nil && e.d != nil && e.d.err == nil {
		if from, here := local(ctx, to.in, to.via); here {
			if v, err, ok := e.callHere(ctx, from, to.in, m); ok {
				return v, err
			}
		}
	}
	return e.callFar(ctx, &to, m)
}

// callFar is Call for an actor that is not known to live in the sender's proc.
//
//go:noinline
func (e Endpoint[A, M, R]) callFar(ctx context.Context, to *Ref[A], m M) (R, error) {
	p, from, err := e.prepare(ctx, to)
	if err != nil {
		var none R
		return none, err
	}
	return Open[R](ask(ctx, p, from, to.id, e.d.name, m))
}

// Post sends m and does not wait. A nil error says that the mailbox of an actor in this proc has the
// message, or that it is on its way to another proc. What does not arrive there by the deadline of ctx
// (without one: 30 s), and what comes back later, is told to the sender (Undeliverer).
func (e Endpoint[A, M, R]) Post(ctx context.Context, to Ref[A], m M) error {
	if to.in != nil && e.d != nil && e.d.err == nil {
		if from, here := local(ctx, to.in, to.via); here {
			if ok, why := send(to.in, &e.d.spec, letter[M, R]{m: m, from: from}, 0); why == nil {
				if ok {
					return nil
				}
			} else if why.Code == CodeMailboxFull || !to.in.replaced() {
				return why
			}
		}
	}
	return e.postFar(ctx, &to, m, false)
}

// PostWait is Post that waits for room when the mailbox is full, at most until ctx ends (without a
// deadline: 30 s). To an actor in another proc it waits while 8 MiB of such messages, to all actors
// there, are not taken up; they enter a full mailbox. An actor that waits does so on its turn: two that
// wait for each other wait for their deadlines.
func (e Endpoint[A, M, R]) PostWait(ctx context.Context, to Ref[A], m M) error {
	if to.in != nil && e.d != nil && e.d.err == nil {
		if from, here := local(ctx, to.in, to.via); here {
			if ok, why := send(to.in, &e.d.spec, letter[M, R]{m: m, from: from}, 0); ok && why == nil {
				return nil
			} else if ok {
				return e.postLate(ctx, &to, m, why)
			}
		}
	}
	return e.postFar(ctx, &to, m, true)
}

// postLate waits for room.
//
//go:noinline
func (e Endpoint[A, M, R]) postLate(ctx context.Context, to *Ref[A], m M, why *Error) error {
	err := error(why)
	ctx, cancel := to.in.proc.bounded(ctx)
	defer cancel()
	if from, ok := ctx.Value(senderKey{}).(*instance); ok {
		from.yield()
	}
	for errors.Is(err, ErrMailboxFull) {
		if room := to.in.full(); room != nil {
			select {
			case <-room:
			case <-ctx.Done():
				return err
			}
		}
		err = e.Post(ctx, *to, m)
	}
	return err
}

// postFar is Post for an actor that is not known to live in the sender's proc.
//
//go:noinline
func (e Endpoint[A, M, R]) postFar(ctx context.Context, to *Ref[A], m M, wait bool) error {
	p, from, err := e.prepare(ctx, to)
	if err != nil {
		return err
	}
	if to.id.Proc == p.id {
		return p.post(from, to.id.Port(e.d.name), m)
	}
	deadline, _ := ctx.Deadline()
	if !wait {
		return postFar(p, from, to.id, e.d.name, e.d.typ, m, deadline, nil)
	}
	return postFar(p, from, to.id, e.d.name, e.d.typ, m, deadline, ctx)
}

// local reports whether an actor is known to live in the sender's proc. from is the actor that
// sends; nil when it is the client.
func local(ctx context.Context, to *instance, via *Proc) (from *instance, ok bool) {
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

// replaced reports whether another actor has the name of this one, or none can: the proc has failed.
func (in *instance) replaced() bool { return in.proc.find(in.name) != in || in.proc.Err() != nil }

// callHere is Call within a proc, without encoding. ok is false when the actor takes other types
// than these by that name, or is not the one that has this address now.
func (e Endpoint[A, M, R]) callHere(ctx context.Context, from, to *instance, m M) (v R, err error, ok bool) {
	p := to.proc
	rp := &reply[R]{}
	rp.ctx.in = to
	var now int64
	done := ctx.Done()
	if done != nil && ctx.Err() != nil {
		return v, fromContext(ctx, to.id().String(), e.d.name), true
	}
	if end, has := ctx.Deadline(); has { // ctx itself wakes the caller
		rp.ctx.until = p.at(end)
		rp.seat = p.seats.take(0)
	} else {
		now = p.now()
		rp.ctx.until = now + int64(p.deadline)
		rp.seat = p.seats.take(rp.ctx.until)
	}
	ok, why := send(to, &e.d.spec, letter[M, R]{m: m, from: from, reply: rp}, now)
	if !ok || why != nil {
		p.seats.leave(rp.seat)
		if why == nil {
			return v, nil, false
		}
		return v, why, why.Code == CodeMailboxFull || !to.replaced()
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
			"nobody to send as: call from an actor's handler with its Context, or bind the ref with Via")
	}
	return p, from, p.Barred(from)
}

// Sender finds who speaks: the actor whose Context ctx is or derives from, else the client of
// via. The proc is nil when there is neither.
func Sender(ctx context.Context, via *Proc) (p *Proc, name string) { return senderOf(ctx, via) }

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
	return context.WithTimeout(ctx, p.deadline)
}

// now is the proc's clock: nanoseconds since it started, which no change of the wall clock moves.
func (p *Proc) now() int64 { return int64(time.Since(p.epoch)) }

// at is a point in time by the proc's clock.
func (p *Proc) at(t time.Time) int64 { return max(1, int64(t.Sub(p.epoch))) }

// actorID names an actor of this proc; the client when it is nil.
func (p *Proc) senderID(from *instance) subjects.ActorID {
	if from == nil {
		return p.id.Actor(clientName)
	}
	return from.id()
}
