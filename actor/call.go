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

// ask sends a request to an actor and waits. Within the process the request is a mailbox push.
// Otherwise it is a message with its own reply port, and fails at once when the target's proc is
// found dead.
func ask[M any](ctx context.Context, p *Proc, from string, to subjects.ActorID, endpoint string, m M) Answer {
	if to.Proc == p.id {
		return p.askLocal(ctx, from, to, endpoint, m)
	}
	w, err := encode(p, m)
	w.ext = originOf(ctx).ext()
	a := p.askRemote(ctx, from, to, endpoint, w, err)
	p.outbox.releaseBuf(w)
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
	c, deadline := p.newCall(ctx, to)
	defer p.waiters.put(c.waiter)
	p.deliverOrReject(Delivery{
		Actor: to.Name, Port: endpoint, From: p.id.Actor(from), Local: true, Value: m,
		Deadline: deadline, Answer: c.setAnswer, trace: originOf(ctx).trace,
	})
	return c.await(ctx, p, endpoint)
}

// askRemote is ask for an encoded request, or an encoding error.
func (p *Proc) askRemote(ctx context.Context, from string, to subjects.ActorID, endpoint string,
	w encodedMessage, err error) Answer {
	if ctx.Err() != nil {
		return Answer{Err: fromContext(ctx, to.String(), endpoint)}
	}
	if err != nil {
		return Answer{Err: errorf(CodeInvalid, to.String(), endpoint, "%v", err)}
	}
	c, deadline := p.newCall(ctx, to)
	defer p.waiters.put(c.waiter)
	err = c.send(p, from, endpoint, w, deadline, ctx)
	if err != nil && c.state.CompareAndSwap(waitOpen, waitAbandoned) { // else an answer came all the same
		return Answer{Err: err}
	}
	defer p.ports.remove(c.key, c)
	return c.await(ctx, p, endpoint)
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
// fails. With a context it waits for room until the context ends. The zero deadline is
// none.
func (c *call) send(p *Proc, from, endpoint string, w encodedMessage, deadline time.Time,
	wait context.Context) error {
	// before its death could be missed
	if _, err := p.outbox.target(c.to, endpoint); err != nil && !errors.Is(err, errColocated) {
		return err
	}
	c.assignReplyPort(p, from)
	if !p.ports.add(c.key, c) { // the answer could not come
		return p.stopped()
	}
	o := &outbound{
		to: c.to, port: endpoint, mark: link.Mark{Call: c}, deadline: deadline, wait: wait,
		envelope: wire.Envelope{Kind: wire.Message, Sender: from, Reply: c.replyAddr, Ext: w.ext,
			Bytes: w.bytes, Body: w.body},
	}
	if !deadline.IsZero() {
		o.envelope.TTL = max(time.Until(deadline), time.Millisecond) // 0 is no deadline
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

// sendUntyped sends a message without waiting for an answer.
func (p *Proc) sendUntyped(o origin, from string, to subjects.PortID, m any) error {
	if to.Actor.Proc == p.id {
		return p.deliver(&Delivery{
			Actor: to.Actor.Name, Port: to.Port, From: p.id.Actor(from), Local: true, Value: m,
			trace: o.trace,
		})
	}
	w, err := encode(p, m)
	w.ext = o.ext()
	return p.sendEncoded(from, to.Actor, to.Port, typeOf(m), w, err, time.Time{}, nil)
}

// sendEncoded sends an encoded message to another process, or returns its encoding error. typ is
// the name of the message's type. The message has its fate by the deadline; zero stands for the
// default. With a context, sendEncoded waits for room until the context ends.
func (p *Proc) sendEncoded(from string, to subjects.ActorID, port, typ string, w encodedMessage, err error,
	deadline time.Time, wait context.Context) error {
	if err != nil {
		p.outbox.releaseBuf(w)
		return errorf(CodeInvalid, to.String(), port, "%v", err)
	}
	err = p.outbox.send(&outbound{
		to: to, port: port, envelope: wire.Envelope{Kind: wire.Message, Sender: from, Ext: w.ext,
			Bytes: w.bytes, Body: w.body, Wait: wait != nil},
		mark: link.Mark{Type: typ}, deadline: deadline, wait: wait,
	})
	p.outbox.releaseBuf(w)
	return err
}

// encodedMessage is an encoded message with its buffer.
type encodedMessage struct {
	body  []byte
	ext   []byte  // the trace of its sender; nil: none
	bytes bool    // see wire.Envelope
	buf   *[]byte // the pooled buffer of the bytes; nil: the message was bytes already
}

// encode encodes a message. The caller returns the borrowed buffer, also after an error.
func encode[M any](p *Proc, m M) (encodedMessage, error) {
	if raw, is := any(&m).(*[]byte); is && *raw != nil {
		return encodedMessage{body: *raw, bytes: true}, nil
	}
	return p.encodeAny(m)
}

//go:noinline
func (p *Proc) encodeAny(m any) (w encodedMessage, err error) {
	w.buf, _ = p.outbox.bufs.Get().(*[]byte)
	if w.buf == nil {
		w.buf = new([]byte)
	}
	w.body, err = wire.AppendMarshal((*w.buf)[:0], m)
	return w, err
}

// maxScratch is the size in bytes above which a buffer is not pooled.
const maxScratch = 64 << 10

func (ob *outbox) releaseBuf(w encodedMessage) {
	if w.buf == nil {
		return
	}
	if cap(w.body) <= maxScratch {
		*w.buf = w.body
	}
	ob.bufs.Put(w.buf)
}

// rawAnswer is an undecoded answer from the bus. The waiting caller decodes it.
type rawAnswer struct {
	raw     []byte
	unknown *atomic.Uint64
}

// open decodes an answer on the waiting goroutine.
func (a Answer) open(result decodeFunc) (any, error) {
	answer, ok := a.Value.(*rawAnswer)
	if !ok || a.Err != nil {
		return a.Value, a.Err
	}
	v, err := result(wire.CBOR, answer.raw, answer.unknown)
	if err != nil {
		return nil, undecodable(err)
	}
	return v, nil
}

// decode decodes the answer into the value that v points to.
func (a *rawAnswer) decode(v any) error {
	if err := wire.CBOR.DecodeCounting(a.raw, v, a.unknown); err != nil {
		return undecodable(err)
	}
	return nil
}

func undecodable(err error) error {
	return ranError(errorf(CodeBadMessage, "", "", "cannot decode the answer: %v", err))
}
