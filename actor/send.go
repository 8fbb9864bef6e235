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

// maxTargets bounds how many ports of other procs a proc remembers the way to; then it begins anew.
const maxTargets = 1 << 16

// targets are the ports of other procs that messages go to.
type targets struct {
	last atomic.Pointer[target] // most messages go where the one before went

	mu  sync.Mutex // guards all
	all map[subjects.PortID]*target
}

type target struct {
	id subjects.PortID
	*link.Target
}

// target finds the way to a port of another proc. The first to a mesh waits for the server, so it must
// not run on a pump.
func (p *Proc) target(actor subjects.ActorID, port string) (*target, error) {
	if t := p.targets.last.Load(); t != nil && t.id.Port == port && t.id.Actor == actor {
		return t, nil
	}
	return p.targetAnew(actor.Port(port), port)
}

//go:noinline
func (p *Proc) targetAnew(to subjects.PortID, port string) (*target, error) {
	ts := &p.targets
	ts.mu.Lock()
	t := ts.all[to]
	ts.mu.Unlock()
	if t == nil {
		if !to.IsValid() {
			return nil, errorf(CodeInvalid, "", port, "want the port of an actor, got the zero value or a malformed name")
		}
		if p.process.has(to.Actor.Proc) {
			return nil, errNeighbour
		}
		if e, dead := p.Down(to.Actor.Proc); dead {
			err := procDead(to.Actor.String(), to.Port, e)
			err.sure = true // nothing was sent
			return nil, err
		}
		if err := p.Follow(to.Actor.Proc.Mesh, int(to.Actor.Proc.Rank)+1); err != nil {
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

// forget drops a target whose peer the links have forgotten.
func (ts *targets) forget(t *target) {
	ts.last.CompareAndSwap(t, nil)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.all, t.id)
}

// lose drops the ways to procs that are gone.
func (ts *targets) lose(gone func(subjects.ProcID) bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	maps.DeleteFunc(ts.all, func(at subjects.PortID, _ *target) bool { return gone(at.Actor.Proc) })
	if t := ts.last.Load(); t != nil && gone(t.id.Actor.Proc) {
		ts.last.CompareAndSwap(t, nil)
	}
}

// outbound is a message on its way to another proc.
type outbound struct {
	to       subjects.ActorID
	port     string
	envelope wire.Envelope
	mark     link.Mark
	until    time.Time       // when its fate must be known; zero: the default
	wait     context.Context // for how long to wait for room, without a deadline 30 s; nil: not at all
}

// send queues a message for another proc; nil says that it will have a fate. Nothing of it is kept.
func (p *Proc) send(o *outbound) error {
	t, err := p.target(o.to, o.port)
	if err != nil {
		if errors.Is(err, errNeighbour) {
			return p.sendBeside(o)
		}
		return err
	}
	if p.id.Seat > 0 {
		o.envelope.Sender = p.id.Actor(o.envelope.Sender).Within()
	}
	if err = p.links.Send(t.Target, &o.envelope, o.mark, p.links.At(o.until)); err == nil {
		return nil
	}
	return p.sendAgain(o, t, err)
}

// sendAgain waits for room, or finds the way anew, when a message could not be queued.
//
//go:noinline
func (p *Proc) sendAgain(o *outbound, t *target, err error) error {
	if full, ok := errors.AsType[*link.Error](err); ok && full.Reason == link.Full && o.wait != nil {
		ctx, cancel := p.bounded(o.wait)
		defer cancel()
		err = p.links.SendWait(ctx, t.Target, &o.envelope, o.mark, p.links.At(o.until))
	}
	if !errors.Is(err, link.ErrForgotten) {
		return p.sendError(o.to.Proc, o.to.String(), o.port, err)
	}
	p.targets.forget(t)
	o.envelope.Sender = p.self.Within(o.envelope.Sender).Name
	return p.send(o)
}

// Answer queues an envelope for a port that waits for it: it is never refused for want of room (DEL-7),
// and may be sent on a pump.
func (p *Proc) respond(at replyPort, e wire.Envelope) error {
	to := at.port
	if at.peer == nil && !to.IsValid() {
		return errorf(CodeInvalid, "", to.Port, "want the port of an actor, got the zero value or a malformed name")
	}
	if to.Actor.Proc == p.id {
		e.Bytes, e.Body = false, e.Whole()
		p.route(to.Actor.Name, to.Port, p.id.Actor(e.Sender), e)
		return nil
	}
	if p.process.has(to.Actor.Proc) {
		return p.sendBeside(&outbound{to: to.Actor, port: to.Port, envelope: e})
	}
	if p.id.Seat > 0 {
		e.Sender = p.id.Actor(e.Sender).Within()
	}
	err := link.ErrForgotten
	if at.peer != nil {
		send := p.links.Send
		if at.gather {
			send = p.links.Gather
		}
		err = send(at.peer.Unnamed(to), &e, link.Mark{Call: unheard{}}, 0)
	}
	if errors.Is(err, link.ErrForgotten) {
		err = p.links.Send(p.links.Unnamed(to), &e, link.Mark{Call: unheard{}}, 0)
	}
	if err == nil {
		return nil
	}
	return p.sendError(to.Actor.Proc, to.Actor.String(), to.Port, err)
}

// unheard marks answers: when one does not arrive, whoever waits for it learns it himself.
type unheard struct{}

// sendError puts an error of the links into the words of this package.
func (p *Proc) sendError(to subjects.ProcID, actor, endpoint string, err error) error {
	if e, ok := errors.AsType[*link.Error](err); ok {
		return p.fateError(link.Fate{Known: true, Reason: e.Reason, Text: e.Text}, to, actor, endpoint)
	}
	return busError(actor, endpoint, err)
}

// busError puts an error of the bus into the words of this package.
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

// answer sends an answer home. What cannot be sent as it is becomes a failure that says why.
func (p *Proc) answer(actor string, to replyPort, a Answer, ext []byte) {
	e := wire.Envelope{Kind: wire.Value, Ext: ext}
	if a.Err != nil {
		e.Kind, e.Body = wire.Failure, EncodeError(a.Err)
	}
	var err error
	if a.Err == nil {
		e.Body, err = a.Raw()
	}
	p.answerAs(actor, to, e, err)
}

// answerAs is answer for one that is encoded, or could not be.
func (p *Proc) answerAs(actor string, to replyPort, e wire.Envelope, err error) {
	e.Sender = actor
	if err != nil {
		err = unsendable(p.id.Actor(actor), err)
	} else if err = p.respond(to, e); err == nil {
		return
	} else {
		err = ranError(fmt.Errorf("the answer: %w", err))
	}
	e.Kind, e.Bytes, e.Body = wire.Failure, false, EncodeError(err)
	if err := p.respond(to, e); err != nil {
		p.loud.Warn().Err(err).Stringer("to", to.port).Msg("an answer was not sent")
	}
}

// unsendable is the answer of an actor in the place of one that cannot be encoded.
func unsendable(from subjects.ActorID, err error) *Error {
	return errorf(CodeHandler, from.String(), "", "the answer: %v", err)
}

// AnswerWith sends an answer to a port with an ext of the caller's own.
func (p *Proc) AnswerWith(actor string, to subjects.PortID, a Answer, ext []byte) {
	p.answer(actor, replyPort{port: to}, a, ext)
}

// Flush waits until every message that was sent from this proc to others before has its fate: it was
// delivered, or its sender has been told that it was not, or that it cannot be known. Without a
// deadline in ctx it waits 30 s.
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
