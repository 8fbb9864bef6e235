package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// maxTargets bounds the remembered targets in other procs, besides those with an open request for
// credit; a full table is cleared.
const maxTargets = 1 << 16

// outbox sends the messages of a proc to other procs. It caches their targets.
type outbox struct {
	p    *Proc
	bufs sync.Pool              // of *[]byte, to encode into
	last atomic.Pointer[target] // most messages go where the one before went

	mu         sync.Mutex // guards the fields below
	all        map[subjects.PortID]*target
	maxAll     int   // the size at which all is cleared; 0: maxTargets
	waitWindow int64 // 0: waitWindow
	forgot     bool  // targets were dropped, perhaps with credit in use
}

type target struct {
	id subjects.PortID
	*link.Target
	credit waitCredit
}

// target returns the target of a port in another proc. The first one in a mesh waits for the
// server, so it must not run on a pump.
func (ob *outbox) target(actor subjects.ActorID, port string) (*target, error) {
	if t := ob.last.Load(); t != nil && t.id.Port == port && t.id.Actor == actor {
		return t, nil
	}
	return ob.lookupTarget(actor.Port(port), port)
}

//go:noinline
func (ob *outbox) lookupTarget(to subjects.PortID, port string) (*target, error) {
	p := ob.p
	ob.mu.Lock()
	t := ob.all[to]
	ob.mu.Unlock()
	if t == nil {
		if !to.IsValid() {
			return nil, errorf(CodeInvalid, "", port,
				"want the port of an actor, got the zero value or a malformed name")
		}
		if p.process.has(to.Actor.Proc) {
			return nil, errColocated
		}
		if e, dead := p.Members().Down(to.Actor.Proc); dead {
			err := procDead(to.Actor.String(), to.Port, e)
			err.knownUnhandled = true // nothing was sent
			return nil, err
		}
		if err := p.Members().FollowMesh(to.Actor.Proc.Mesh, int(to.Actor.Proc.Rank)+1); err != nil {
			return nil, err
		}
		t = &target{id: to, Target: p.links.Target(to)}
		ob.add(t)
	}
	ob.last.Store(t)
	return t, nil
}

// add remembers a target. Without knowledge of its past, its credit begins with a request.
func (ob *outbox) add(t *target) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	if ob.all == nil {
		ob.all = map[subjects.PortID]*target{}
	}
	if len(ob.all) >= max(maxTargets, ob.maxAll) {
		ob.forget()
	}
	t.credit.half = cmp.Or(ob.waitWindow, waitWindow) / 2
	t.credit.turn = make(chan struct{}, 1)
	if ob.forgot {
		t.credit.used.Store(t.credit.half)
	}
	ob.all[t.id] = t
}

// forget drops the targets without an open request for credit. The lock is held.
func (ob *outbox) forget() {
	maps.DeleteFunc(ob.all, func(_ subjects.PortID, t *target) bool { return !t.credit.requested.Load() })
	ob.maxAll = 2 * len(ob.all)
	ob.forgot = true
}

// drop drops a target whose peer was evicted.
func (ob *outbox) drop(t *target) {
	ob.last.CompareAndSwap(t, nil)
	ob.mu.Lock()
	defer ob.mu.Unlock()
	delete(ob.all, t.id)
	ob.forgot = true
}

// dropDead drops the targets in dead procs.
func (ob *outbox) dropDead(gone func(subjects.ProcID) bool) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	maps.DeleteFunc(ob.all, func(at subjects.PortID, _ *target) bool { return gone(at.Actor.Proc) })
	if t := ob.last.Load(); t != nil && gone(t.id.Actor.Proc) {
		ob.last.CompareAndSwap(t, nil)
	}
}

// outbound is a message on its way to another proc.
type outbound struct {
	to       subjects.ActorID
	port     string
	envelope wire.Envelope
	mark     link.Mark
	deadline time.Time       // when its fate must be known; zero: the default
	wait     context.Context // for how long to wait for room, without a deadline 30 s; nil: not at all
}

// newOutbound makes a message without an answer; typ is the name of its type, for people.
func newOutbound(from string, to subjects.PortID, typ string) outbound {
	return outbound{to: to.Actor, port: to.Port, mark: link.Mark{Type: typ},
		envelope: wire.Envelope{Kind: wire.Message, Sender: from}}
}

// send queues a message for another proc. After nil the message will have a fate. It keeps nothing
// of the message.
func (ob *outbox) send(o *outbound) error {
	p := ob.p
	t, err := ob.target(o.to, o.port)
	if err != nil {
		if errors.Is(err, errColocated) {
			return ob.sendColocated(o)
		}
		return err
	}
	if o.envelope.Wait {
		if err := t.credit.reserve(p, o); err != nil {
			return err
		}
	}
	if p.id.Index > 0 {
		o.envelope.Sender = p.id.Actor(o.envelope.Sender).LocalName()
	}
	err = p.links.Send(t.Target, &o.envelope, o.mark, p.links.At(o.deadline))
	if err == nil {
		return nil
	}
	return ob.retry(o, t, err)
}

// retry waits for room, or renews the target, after a message could not be queued.
//
//go:noinline
func (ob *outbox) retry(o *outbound, t *target, err error) error {
	p := ob.p
	if full, ok := errors.AsType[*link.Error](err); ok && full.Reason == link.QueueFull && o.wait != nil {
		ctx, cancel := p.bounded(o.wait)
		defer cancel()
		err = p.links.SendWait(ctx, t.Target, &o.envelope, o.mark, p.links.At(o.deadline))
	}
	if !errors.Is(err, link.ErrEvicted) {
		return ob.sendError(o.to.Proc, o.to.String(), o.port, err)
	}
	ob.drop(t)
	o.envelope.Sender = p.self.ActorByLocalName(o.envelope.Sender).Name
	return ob.send(o)
}

// respond queues an envelope for a waiting port. It is never refused for want of room (DEL-6), and
// may run on a pump.
func (ob *outbox) respond(to *replyTo, e wire.Envelope) error {
	p := ob.p
	at := to.port.Actor
	if to.peer == nil && !to.port.IsValid() {
		return errorf(CodeInvalid, "", to.port.Port,
			"want the port of an actor, got the zero value or a malformed name")
	}
	if p.process.has(at.Proc) {
		return ob.sendColocated(&outbound{to: at, port: to.port.Port, envelope: e})
	}
	if p.id.Index > 0 {
		e.Sender = p.id.Actor(e.Sender).LocalName()
	}
	err := link.ErrEvicted
	if to.peer != nil {
		send := p.links.Send
		if to.batch {
			send = p.links.SendBatched
		}
		err = send(to.peer.UnnamedTarget(to.port), &e, link.Mark{Call: answerMark{}}, 0)
	}
	if errors.Is(err, link.ErrEvicted) {
		err = p.links.Send(p.links.UnnamedTarget(to.port), &e, link.Mark{Call: answerMark{}}, 0)
	}
	if err == nil {
		return nil
	}
	return ob.sendError(at.Proc, at.String(), to.port.Port, err)
}

// answerMark marks answers. Their loss is not reported, because the waiting caller detects it.
type answerMark struct{}

// sendError converts an error of the links to an Error.
func (ob *outbox) sendError(to subjects.ProcID, actor, endpoint string, err error) error {
	if e, ok := errors.AsType[*link.Error](err); ok {
		return ob.fateError(link.Fate{Known: true, Reason: e.Reason, Text: e.Text}, to, actor, endpoint)
	}
	return busError(actor, endpoint, err)
}

// busError converts an error of the bus to an Error.
func busError(actor, endpoint string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	code := CodeUnavailable
	if errors.Is(err, bus.ErrTooLarge) {
		code = CodeTooLarge
	} else if errors.Is(err, bus.ErrBadSubject) {
		code = CodeInvalid
	}
	return errorf(code, actor, endpoint, "%v", err)
}

// sendAnswer sends an actor's answer, or the error of encoding it. An answer that cannot be sent is
// replaced by its error.
func (ob *outbox) sendAnswer(actor string, to *replyTo, e *wire.Envelope, err error) {
	e.Sender = actor
	if err != nil {
		err = answerError(ob.p.id.Actor(actor), err)
	} else {
		err = ob.respond(to, *e)
		if err == nil {
			return
		}
		err = ranError(fmt.Errorf("cannot send the answer: %w", err))
	}
	failure := wire.Envelope{Kind: wire.Failure, Sender: actor, Ext: e.Ext, Body: EncodeError(err)}
	if err := ob.respond(to, failure); err != nil {
		level := zerolog.WarnLevel
		if errors.Is(err, ErrStopped) { // this process leaves, and its callers learn of that
			level = zerolog.DebugLevel
		}
		ob.p.sampledLog.WithLevel(level).Err(err).Stringer("to", to.port).Msg("cannot send an answer")
	}
}

// maxScratch is the size in bytes above which a buffer is not pooled.
const maxScratch = 64 << 10

// encode encodes a message as the body of an envelope. The caller releases buf, also after an
// error.
func encode[M any](ob *outbox, e *wire.Envelope, m M) (buf *[]byte, err error) {
	if raw, is := any(&m).(*[]byte); is && *raw != nil {
		e.Body, e.Bytes = *raw, true
		return nil, nil
	}
	return ob.encodeAny(e, m)
}

//go:noinline
func (ob *outbox) encodeAny(e *wire.Envelope, m any) (buf *[]byte, err error) {
	buf, _ = ob.bufs.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	e.Body, err = wire.AppendMarshal((*buf)[:0], m)
	return buf, err
}

// release takes a buffer back, with the body that was encoded into it; nil: the message was bytes.
func (ob *outbox) release(buf *[]byte, body []byte) {
	if buf == nil {
		return
	}
	if cap(body) <= maxScratch {
		*buf = body
	}
	ob.bufs.Put(buf)
}

// sendEncoded sends an encoded message that has no answer, or returns its encoding error.
func (ob *outbox) sendEncoded(o *outbound, buf *[]byte, err error) error {
	if err != nil {
		err = errorf(CodeInvalid, o.to.String(), o.port, "%v", err)
	} else {
		err = ob.send(o)
	}
	ob.release(buf, o.envelope.Body)
	return err
}

// Flush waits until every earlier message from this proc to others has its fate: delivered,
// Undeliverable or Indeterminate. Without a deadline in ctx it waits 30 s.
func (p *Proc) Flush(ctx context.Context) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	if err := p.links.Flush(ctx); err != nil {
		if _, closed := errors.AsType[*link.Error](err); closed {
			return p.stopped()
		}
		return fmt.Errorf("flush proc %s: %w", p.id, err)
	}
	return nil
}
