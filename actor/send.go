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

// outbound is an outgoing message to another proc.
type outbound struct {
	to       subjects.ActorID
	port     string
	envelope wire.Envelope
	mark     link.Mark
	deadline time.Time       // when its fate must be known; zero: the default
	wait     context.Context // for how long to wait for room, without a deadline 30 s; nil: not at all
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
		return p.sendError(o.to.Proc, o.to.String(), o.port, err)
	}
	ob.drop(t)
	o.envelope.Sender = p.self.ActorByLocalName(o.envelope.Sender).Name
	return ob.send(o)
}

// respond queues an envelope for a waiting port. It is never refused for want of room (DEL-6), and
// may run on a pump.
func (ob *outbox) respond(at replyPort, e wire.Envelope) error {
	p := ob.p
	to := at.port
	if at.peer == nil && !to.IsValid() {
		return errorf(CodeInvalid, "", to.Port,
			"want the port of an actor, got the zero value or a malformed name")
	}
	if to.Actor.Proc == p.id {
		e.Bytes, e.Body = false, e.CopyBody()
		p.inbox.deliverToPort(to.Actor.Name, to.Port, p.id.Actor(e.Sender), e)
		return nil
	}
	if p.process.has(to.Actor.Proc) {
		return ob.sendColocated(&outbound{to: to.Actor, port: to.Port, envelope: e})
	}
	if p.id.Index > 0 {
		e.Sender = p.id.Actor(e.Sender).LocalName()
	}
	err := link.ErrEvicted
	if at.peer != nil {
		send := p.links.Send
		if at.batch {
			send = p.links.SendBatched
		}
		err = send(at.peer.UnnamedTarget(to), &e, link.Mark{Call: answerMark{}}, 0)
	}
	if errors.Is(err, link.ErrEvicted) {
		err = p.links.Send(p.links.UnnamedTarget(to), &e, link.Mark{Call: answerMark{}}, 0)
	}
	if err == nil {
		return nil
	}
	return p.sendError(to.Actor.Proc, to.Actor.String(), to.Port, err)
}

// answerMark marks answers. Their loss is not reported, because the waiting caller detects it.
type answerMark struct{}

// sendError converts an error of the links to an Error.
func (p *Proc) sendError(to subjects.ProcID, actor, endpoint string, err error) error {
	if e, ok := errors.AsType[*link.Error](err); ok {
		return p.fateError(link.Fate{Known: true, Reason: e.Reason, Text: e.Text}, to, actor, endpoint)
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

// sendAnswer sends an answer. An answer that cannot be sent is replaced by its error.
func (ob *outbox) sendAnswer(actor string, to replyPort, a Answer, ext []byte) {
	e := wire.Envelope{Kind: wire.Value, Ext: ext}
	if a.Err != nil {
		e.Kind = wire.Failure
		e.Body = EncodeError(a.Err)
	}
	var err error
	if a.Err == nil {
		e.Body, err = a.Raw()
	}
	ob.sendEncodedAnswer(actor, to, e, err)
}

// sendEncodedAnswer is sendAnswer for an encoded answer, or for an encoding error.
func (ob *outbox) sendEncodedAnswer(actor string, to replyPort, e wire.Envelope, err error) {
	e.Sender = actor
	if err != nil {
		err = answerError(ob.p.id.Actor(actor), err)
	} else {
		err = ob.respond(to, e)
		if err == nil {
			return
		}
		err = ranError(fmt.Errorf("cannot send the answer: %w", err))
	}
	e.Kind = wire.Failure
	e.Bytes = false
	e.Body = EncodeError(err)
	if err := ob.respond(to, e); err != nil {
		ob.p.sampledLog.Warn().Err(err).Stringer("to", to.port).Msg("cannot send an answer")
	}
}

// answerError is the answer in the place of one that cannot be encoded.
func answerError(from subjects.ActorID, err error) *Error {
	return errorf(CodeHandler, from.String(), "", "cannot encode the answer: %v", err)
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
