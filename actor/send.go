package actor

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// hintBase is how the number of a message is written in the subject of its hint.
const hintBase = 36

// Send publishes a frame to a port of another proc, as the next message on the link to its
// process; a port of this proc is served directly. An error says that nothing was sent.
func (p *Proc) Send(to subjects.PortID, f wire.Frame) error {
	return p.send(to, f, func(uint64) {})
}

// send is Send that tells the frame's number before it is on its way.
func (p *Proc) send(to subjects.PortID, f wire.Frame, numbered func(n uint64)) error {
	if !to.IsValid() {
		return errorf(CodeInvalid, "", to.Port, "want the port of an actor, got the zero value or a malformed name")
	}
	if to.Actor.Proc == p.id {
		p.route(to.Actor.Name, to.Port, p.id.Actor(f.Sender), f)
		return nil
	}
	if e, dead := p.Down(to.Actor.Proc); dead {
		return procDead(to.Actor.String(), to.Port, e)
	}
	subject := p.space.Port(to, p.self.String())
	peer := to.Actor.Proc.Process()
	err := p.sender.Send(peer, func(n, prev uint64, open bool) error {
		f.N, f.Prev = n, prev
		numbered(n)
		m := bus.Msg{Subject: subject, Data: f.Append(make([]byte, 0, f.Size()))}
		if !open { // nobody there is worth knowing before the first answer
			m.Reply = p.space.Hint(p.self, strconv.FormatUint(n, hintBase))
		}
		return p.bus.Data().PublishMsg(m)
	})
	return sendError(to.Actor.String(), to.Port, err)
}

// Multicast publishes one frame to many processes, as the next message on the link to each. stamp
// puts each member's prev into the frame. Members whose link is broken or that are known to be
// dead must have been left out by the caller; a link found broken here is marked link.Left.
func (p *Proc) Multicast(subject string, to []subjects.ProcessID, stamp func(n uint64, prevs []uint64) (wire.Frame, error)) ([]*link.BrokenError, error) {
	broken, err := p.sender.SendCast(to, func(n uint64, prevs []uint64) error {
		f, err := stamp(n, prevs)
		if err != nil {
			return err
		}
		f.N = n
		return p.bus.Data().Publish(subject, f.Append(make([]byte, 0, f.Size())))
	})
	return broken, sendError("", "", err)
}

// sendError puts an error of the bus or the link into the words of this package.
func sendError(actor, endpoint string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	code := CodeUnavailable
	if _, ok := errors.AsType[*link.BrokenError](err); ok {
		code = CodeLinkBroken
	} else if errors.Is(err, bus.ErrTooLarge) {
		code = CodeTooLarge
	} else if errors.Is(err, bus.ErrBadSubject) {
		code = CodeInvalid
	}
	return errorf(code, actor, endpoint, "%v", err)
}

// answer sends an answer home. What cannot be sent as it is becomes a failure that says why.
func (p *Proc) answer(actor string, to subjects.PortID, a Answer, ext []byte) {
	f := wire.Frame{Kind: wire.Value, Sender: actor, Ext: ext}
	var err error
	if a.Err == nil {
		if f.Body, err = wire.Marshal(a.Value); err != nil {
			a.Err = errorf(CodeHandler, p.id.Actor(actor).String(), "", "the answer: %v", err)
		}
	}
	if a.Err == nil {
		if err = p.Send(to, f); err == nil {
			return
		}
		a.Err = ranError(fmt.Errorf("the answer: %w", err))
	}
	f.Kind, f.Body = wire.Failure, EncodeError(a.Err)
	if err := p.Send(to, f); err != nil {
		p.loud.Warn().Err(err).Stringer("to", to).Msg("an answer was not sent")
	}
}

// AnswerWith sends an answer to a port with an ext of the caller's own.
func (p *Proc) AnswerWith(actor string, to subjects.PortID, a Answer, ext []byte) {
	p.answer(actor, to, a, ext)
}

// sendControl says something on the control lane, which no data can hold up.
func (p *Proc) sendControl(to subjects.ProcessID, f wire.Frame) {
	subject := p.space.Control(to, p.self.String())
	if err := p.bus.Control().Publish(subject, f.Append(nil)); err != nil {
		p.loud.Warn().Err(err).Stringer("to", to).Msg("a control message was not sent")
	}
}
