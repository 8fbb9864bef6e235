package actor

import (
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

// maxTargets bounds the remembered targets in other procs; a full table is cleared.
const maxTargets = 1 << 16

// targets caches the targets in other procs.
type targets struct {
	last atomic.Pointer[target] // most messages go where the one before went

	mu  sync.Mutex // guards all
	all map[subjects.PortID]*target
}

type target struct {
	id subjects.PortID
	*link.Target
}

// target returns the target of a port in another proc. The first one in a mesh waits for the
// server, so it must not run on a pump.
func (p *Proc) target(actor subjects.ActorID, port string) (*target, error) {
	if t := p.targets.last.Load(); t != nil && t.id.Port == port && t.id.Actor == actor {
		return t, nil
	}
	return p.lookupTarget(actor.Port(port), port)
}

//go:noinline
func (p *Proc) lookupTarget(to subjects.PortID, port string) (*target, error) {
	ts := &p.targets
	ts.mu.Lock()
	t := ts.all[to]
	ts.mu.Unlock()
	if t == nil {
		if !to.IsValid() {
			return nil, errorf(CodeInvalid, "", port,
				"want the port of an actor, got the zero value or a malformed name")
		}
		if p.process.has(to.Actor.Proc) {
			return nil, errColocated
		}
		if e, dead := p.Down(to.Actor.Proc); dead {
			err := procDead(to.Actor.String(), to.Port, e)
			err.knownUnhandled = true // nothing was sent
			return nil, err
		}
		if err := p.FollowMesh(to.Actor.Proc.Mesh, int(to.Actor.Proc.Rank)+1); err != nil {
			return nil, err
		}
		t = &target{to, p.links.Target(to)}
		ts.mu.Lock()
		if ts.all == nil || len(ts.all) >= maxTargets {
			ts.all = map[subjects.PortID]*target{}
		}
		ts.all[to] = t
		ts.mu.Unlock()
	}
	ts.last.Store(t)
	return t, nil
}

// drop drops a target whose peer was evicted.
func (ts *targets) drop(t *target) {
	ts.last.CompareAndSwap(t, nil)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.all, t.id)
}

// dropDead drops the targets in dead procs.
func (ts *targets) dropDead(gone func(subjects.ProcID) bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	maps.DeleteFunc(ts.all, func(at subjects.PortID, _ *target) bool { return gone(at.Actor.Proc) })
	if t := ts.last.Load(); t != nil && gone(t.id.Actor.Proc) {
		ts.last.CompareAndSwap(t, nil)
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
func (p *Proc) send(o *outbound) error {
	t, err := p.target(o.to, o.port)
	if err != nil {
		if errors.Is(err, errColocated) {
			return p.sendColocated(o)
		}
		return err
	}
	if p.id.Index > 0 {
		o.envelope.Sender = p.id.Actor(o.envelope.Sender).LocalName()
	}
	err = p.links.Send(t.Target, &o.envelope, o.mark, p.links.At(o.deadline))
	if err == nil {
		return nil
	}
	return p.retrySend(o, t, err)
}

// retrySend waits for room, or renews the target, after a message could not be queued.
//
//go:noinline
func (p *Proc) retrySend(o *outbound, t *target, err error) error {
	if full, ok := errors.AsType[*link.Error](err); ok && full.Reason == link.QueueFull && o.wait != nil {
		ctx, cancel := p.bounded(o.wait)
		defer cancel()
		err = p.links.SendWait(ctx, t.Target, &o.envelope, o.mark, p.links.At(o.deadline))
	}
	if !errors.Is(err, link.ErrEvicted) {
		return p.sendError(o.to.Proc, o.to.String(), o.port, err)
	}
	p.targets.drop(t)
	o.envelope.Sender = p.self.ActorByLocalName(o.envelope.Sender).Name
	return p.send(o)
}

// respond queues an envelope for a waiting port. It is never refused for want of room (DEL-6), and
// may run on a pump.
func (p *Proc) respond(at replyPort, e wire.Envelope) error {
	to := at.port
	if at.peer == nil && !to.IsValid() {
		return errorf(CodeInvalid, "", to.Port,
			"want the port of an actor, got the zero value or a malformed name")
	}
	if to.Actor.Proc == p.id {
		e.Bytes, e.Body = false, e.CopyBody()
		p.deliverToPort(to.Actor.Name, to.Port, p.id.Actor(e.Sender), e)
		return nil
	}
	if p.process.has(to.Actor.Proc) {
		return p.sendColocated(&outbound{to: to.Actor, port: to.Port, envelope: e})
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
func (p *Proc) sendAnswer(actor string, to replyPort, a Answer, ext []byte) {
	e := wire.Envelope{Kind: wire.Value, Ext: ext}
	if a.Err != nil {
		e.Kind = wire.Failure
		e.Body = EncodeError(a.Err)
	}
	var err error
	if a.Err == nil {
		e.Body, err = a.Raw()
	}
	p.sendEncodedAnswer(actor, to, e, err)
}

// sendEncodedAnswer is sendAnswer for an encoded answer, or for an encoding error.
func (p *Proc) sendEncodedAnswer(actor string, to replyPort, e wire.Envelope, err error) {
	e.Sender = actor
	if err != nil {
		err = answerError(p.id.Actor(actor), err)
	} else {
		err = p.respond(to, e)
		if err == nil {
			return
		}
		err = ranError(fmt.Errorf("cannot send the answer: %w", err))
	}
	e.Kind = wire.Failure
	e.Bytes = false
	e.Body = EncodeError(err)
	if err := p.respond(to, e); err != nil {
		p.sampledLog.Warn().Err(err).Stringer("to", to.port).Msg("cannot send an answer")
	}
}

// answerError is the answer in the place of one that cannot be encoded.
func answerError(from subjects.ActorID, err error) *Error {
	return errorf(CodeHandler, from.String(), "", "cannot encode the answer: %v", err)
}

// SendAnswer sends an answer to a port with an ext of the caller's own.
func (p *Proc) SendAnswer(actor string, to subjects.PortID, a Answer, ext []byte) {
	p.sendAnswer(actor, replyPort{port: to}, a, ext)
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
