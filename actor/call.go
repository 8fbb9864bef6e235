package actor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// call is a request waiting for its answer, with its reply port.
type call struct {
	to        subjects.ActorID
	key       portKey // of the port
	replyAddr string  // the port's address
	// may be called on any goroutine, any number of times; must not block; nil: a caller waits
	onAnswer func(Answer)

	answerWait               // of the first answer
	links        *link.Links // expects callers that will send more; nil: none
	answer       Answer
	remoteAnswer rawAnswer     // the encoded answer, when it came by the bus
	serial       atomic.Uint64 // see link.Asker; 0: it is not on its way
}

// Asked stores the serial of the request.
func (c *call) Asked(serial uint64) { c.serial.Store(serial) }

// lostWith reports whether the answer went with a link to a process.
func (c *call) lostWith(peer subjects.ProcessID, serial uint64) bool {
	asked := c.serial.Load()
	return asked != 0 && asked <= serial && c.to.Proc.Process() == peer
}

// recv takes an answer from the bus. Only the callee's process may answer.
func (c *call) recv(in Incoming) error {
	switch {
	case in.From.Proc.Lead() != c.to.Proc.Lead():
		return errorf(CodePortGone, c.key.actor, c.key.port, "unexpected answer from %s", in.From)
	case c.onAnswer != nil:
		c.onAnswer(in.Answer())
	case c.state.CompareAndSwap(waitOpen, waitAnswering):
		if in.Envelope.Kind == wire.Failure {
			c.answer.Err = FromWire(in.Envelope.Body)
		} else {
			c.remoteAnswer = rawAnswer{in.Envelope.Body, in.unknown}
			c.answer.Value = &c.remoteAnswer
		}
		c.links = in.links
		if c.links != nil { // coalesce with callers answered by the same packet
			c.links.BeginBatch()
		}
		c.signal()
	}
	return nil
}

// closed fails the call when no answer can come any more. A handler may have run the request by
// then.
func (c *call) closed(why error) { c.setAnswer(Answer{Err: ranError(why)}) }

// onFate fails the call when the request did not arrive.
func (c *call) onFate(_ subjects.ProcID, why *Error) { c.setAnswer(Answer{Err: why}) }

// setAnswer takes an answer on any goroutine.
func (c *call) setAnswer(a Answer) {
	if c.onAnswer != nil {
		c.onAnswer(a)
	} else if c.state.CompareAndSwap(waitOpen, waitAnswering) {
		c.answer = a
		c.signal()
	}
}

// ask sends a request to an actor and waits. Within the proc the request is a mailbox push.
// Otherwise it is a message with its own reply port, and fails at once when the target's proc is
// found dead.
func ask[M any](ctx context.Context, p *Proc, from string, to subjects.ActorID, endpoint string, m M) Answer {
	if to.Proc == p.id {
		return p.askLocal(ctx, from, to, endpoint, m)
	}
	o := newOutbound(from, to.Port(endpoint), "")
	o.wait = ctx
	o.envelope.Ext = originOf(ctx).ext()
	buf, err := encode(&p.outbox, &o.envelope, m)
	a := p.outbox.ask(ctx, &o, err)
	p.outbox.release(buf, o.envelope.Body)
	return a
}

// newCall returns a call that waits until ctx ends, or for the proc's deadline. The caller returns
// its waiter.
func (p *Proc) newCall(ctx context.Context, to subjects.ActorID) (c *call, deadline time.Time) {
	c = &call{to: to}
	deadline, has := ctx.Deadline()
	if has { // ctx itself wakes the waiter
		c.waiter = p.waiters.get(0)
	} else {
		deadline = time.Now().Add(p.options.Deadline)
		c.waiter = p.waiters.get(p.instant(deadline))
	}
	return c, deadline
}

// askLocal is ask within the proc.
func (p *Proc) askLocal(ctx context.Context, from string, to subjects.ActorID, endpoint string,
	m any) Answer {
	if ctx.Err() != nil {
		return Answer{Err: fromContext(ctx, to.String(), endpoint)}
	}
	if in := p.find(to.Name); in != nil && from == to.Name {
		if why := selfCallError(ctx, in, endpoint); why != nil {
			return Answer{Err: why}
		}
	}
	c, deadline := p.newCall(ctx, to)
	defer p.waiters.put(c.waiter)
	q := p.newLocalRequest(ctx, from, to.Name, endpoint, m)
	q.Deadline = deadline
	q.Answer = func(_ int, a Answer) { c.setAnswer(a) }
	p.inbox.deliverOrReject(q)
	return c.await(ctx, p, endpoint)
}

// newLocalRequest makes a request for an actor of this proc whose endpoint may have other types.
func (p *Proc) newLocalRequest(ctx context.Context, from, actor, endpoint string, m any) *request {
	q := newRequest()
	q.Actor = actor
	q.Port = endpoint
	q.From = p.id.Actor(from)
	q.Trace = originOf(ctx).trace
	q.local = true
	q.value = m
	return q
}

// ask waits for the answer to an encoded request, or an encoding error.
func (ob *outbox) ask(ctx context.Context, o *outbound, err error) Answer {
	p := ob.p
	if ctx.Err() != nil {
		return Answer{Err: fromContext(ctx, o.to.String(), o.port)}
	}
	if err != nil {
		return Answer{Err: errorf(CodeInvalid, o.to.String(), o.port, "%v", err)}
	}
	c, deadline := p.newCall(ctx, o.to)
	defer p.waiters.put(c.waiter)
	o.deadline = deadline
	err = c.send(p, o)
	if err != nil && c.state.CompareAndSwap(waitOpen, waitAbandoned) { // else an answer came all the same
		return Answer{Err: err}
	}
	defer p.ports.remove(c.key, c)
	return c.await(ctx, p, o.port)
}

// await waits for the answer.
func (c *call) await(ctx context.Context, p *Proc, endpoint string) Answer {
	if in := originOf(ctx).in; in != nil {
		in.yield()
	}
	ended := c.answerWait.await(ctx, ctx.Done())
	if ended == nil {
		if c.links != nil {
			c.links.EndBatch()
		}
		return c.answer
	}
	if c.replyAddr != "" {
		p.casts.CancelRequest(c.to.Proc, c.replyAddr)
	}
	if errors.Is(ended, context.DeadlineExceeded) {
		return Answer{Err: errorf(CodeDeadline, c.to.String(), endpoint, "no answer within the deadline")}
	}
	return Answer{Err: fromContext(ctx, c.to.String(), endpoint)}
}

// send sends the request to another proc, with a reply port. The caller closes the port unless send
// fails.
func (c *call) send(p *Proc, o *outbound) error {
	// before its death could be missed
	if _, err := p.outbox.target(o.to, o.port); err != nil && !errors.Is(err, errColocated) {
		return err
	}
	c.assignReplyPort(p, o.envelope.Sender)
	if !p.ports.add(c.key, c) { // the answer could not come
		return p.stopped()
	}
	o.mark = link.Mark{Call: c}
	o.envelope.Reply = c.replyAddr
	if !o.deadline.IsZero() {
		o.envelope.TTL = max(time.Until(o.deadline), time.Millisecond) // 0 is no deadline
	}
	if err := p.outbox.send(o); err != nil {
		p.ports.remove(c.key, c)
		return err
	}
	return nil
}

// assignReplyPort gives the call a fresh port: one text holds its name, too.
func (c *call) assignReplyPort(p *Proc, from string) {
	var room [128]byte
	b := append(append(append(append(room[:0], p.name...), '/'), from...), ':')
	name := len(b)
	c.replyAddr = string(p.ports.appendFreshName(b))
	c.key = portKey{from, c.replyAddr[name:]}
}
