package actor

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// counters counts what a proc could not use.
type counters struct {
	malformed, late, undeliverable, bounced, foreign, unknown atomic.Uint64
}

// Stats counts messages of a proc since it started.
type Stats struct {
	Links         link.Stats
	Malformed     uint64 // did not decode, or came from nobody
	Late          uint64 // answers nobody waits for any more
	Undeliverable uint64 // came here and found no mailbox
	Bounced       uint64 // sent from here and came back
	Fenced        uint64 // came from a proc that is known to be dead
	Foreign       uint64 // came from plain NATS clients
	Unknown       uint64 // had fields that this build does not know
	PassedOver    uint64 // replies to requests of this process that were no answers
}

// Stats returns the counts so far.
func (p *Proc) Stats() Stats {
	c, links := &p.counts, p.links.Stats()
	return Stats{
		Links: links, Malformed: c.malformed.Load() + links.Malformed, Late: c.late.Load(),
		Undeliverable: c.undeliverable.Load(), Bounced: c.bounced.Load(), Fenced: links.Fenced,
		Foreign: c.foreign.Load(), Unknown: c.unknown.Load(), PassedOver: p.bus.PassedOver(),
	}
}

// receivePort takes what the bus brings for this proc's ports, on the data pump.
func (p *Proc) receivePort(m bus.Msg) {
	s, err := p.space.Parse(m.Subject)
	switch {
	case err != nil:
		p.RefuseForeign(m, err)
	case !wire.IsPacket(m.Data):
		p.Foreign(s.Actor, s.Port, ForeignMessage{Msg: m, From: s.From})
	default:
		p.links.Receive(m, s)
	}
}

// receivePacket takes what the bus brings for this process, on the data pump.
func (p *Proc) receivePacket(m bus.Msg) {
	if s, err := p.space.Parse(m.Subject); err != nil {
		p.malformed(m, err)
	} else {
		p.links.Receive(m, s)
	}
}

// receiveControl takes what peers say about links, on the control pump.
func (p *Proc) receiveControl(m bus.Msg) {
	if s, err := p.space.Parse(m.Subject); err != nil {
		p.malformed(m, err)
	} else {
		p.links.ReceiveControl(m, s)
	}
}

// receiveHint takes the server's word that nobody listened where this proc published.
func (p *Proc) receiveHint(m bus.Msg) {
	if s, err := p.space.Parse(m.Subject); err != nil {
		p.malformed(m, err)
	} else {
		p.links.ReceiveHint(m, s)
	}
}

// ReceivedCast is a cast that came for many.
type ReceivedCast struct {
	Prev    uint64 // what must have been seen before: see link.Opened
	Answers bool   // see Multicast
	Deliver func() error
}

// ReceiveCast takes a cast from the bus, on the data pump: see link.Links.ReceiveCast. open gets its
// sender, too.
func (p *Proc) ReceiveCast(m bus.Msg, s subjects.Subject, open func(from subjects.ActorID, n uint64, e *wire.Envelope) (ReceivedCast, error)) {
	p.links.ReceiveCast(m, s, func(n uint64, e *wire.Envelope) (link.Opened, error) {
		from, err := subjects.ParseProcessID(s.From)
		if err != nil {
			return link.Opened{}, err
		}
		k, err := open(from.Within(e.Sender), n, e)
		return link.Opened{Prev: k.Prev, Answers: k.Answers, Deliver: func() []byte {
			var err error
			p.links.Quietly(func() { err = k.Deliver() })
			if err != nil {
				p.counts.undeliverable.Add(1)
				return EncodeError(err)
			}
			return nil
		}}, err
	})
}

// Answered says that the answer to the cast with number n of a process is on its way home.
func (p *Proc) Answered(from subjects.ProcessID, n uint64) { p.links.Answered(from, n) }

// OnCast sets who takes the casts that come to this proc alone, on the data pump.
func (p *Proc) OnCast(take func(from subjects.ActorID, e *wire.Envelope) error) {
	p.inbound.casts.Store(&take)
}

// route hands an envelope of this proc's own to a port.
func (p *Proc) route(actor, name string, from subjects.ActorID, e wire.Envelope) {
	pt := p.findPort(actor, name)
	if pt == nil {
		p.counts.late.Add(1)
		return
	}
	if err := pt.recv(Incoming{From: from, Envelope: e, unknown: &p.counts.unknown}); err != nil {
		p.undeliverable(&Delivery{Actor: actor, Port: name, From: from}, err)
	}
}

// AnswerTo makes the Answer of a delivery whose sender named a reply port; nil when it named none.
func (p *Proc) AnswerTo(actor, reply string) func(Answer) {
	if reply == "" {
		return nil
	}
	at, ok := p.homeOf(reply)
	if !ok { // somebody wants an answer: an error of the handler is not the actor's end
		return func(Answer) {}
	}
	return func(a Answer) { p.answer(actor, at, a, nil) }
}

// homeOf reads a reply port.
func (p *Proc) homeOf(reply string) (replyPort, bool) {
	at, err := subjects.ParsePortID(reply)
	if err != nil {
		p.counts.malformed.Add(1)
		p.loud.Warn().Err(err).Msg("a message with a malformed reply port")
	}
	return replyPort{port: at}, err == nil
}

// Deliver puts a message into a mailbox of this proc; when that cannot be, the sender is told.
func (p *Proc) Deliver(d Delivery) {
	if err := p.deliver(&d); err != nil {
		p.undeliverable(&d, err)
	}
}

func (p *Proc) deliver(d *Delivery) error {
	in := p.find(d.Actor)
	if strings.HasPrefix(d.Port, "_") {
		return p.system(d)
	}
	if in == nil {
		return p.noActor(d.Actor, d.Port)
	}
	return in.deliver(d)
}

func (p *Proc) noActor(actor, port string) *Error {
	return errorf(CodeNoActor, p.id.Actor(actor).String(), port, "proc %s has no such actor", p.id)
}

func (p *Proc) malformed(m bus.Msg, err error) { linked{p}.Malformed(m.Subject, len(m.Data), err) }

// inbound is what the data pump needs to deliver messages. It belongs to the pump.
type inbound struct {
	casts atomic.Pointer[func(from subjects.ActorID, e *wire.Envelope) error]
}

// deliver delivers messages until one is refused, and says how many it took.
func (b *inbound) deliver(p *Proc, in *link.Inbound) (taken int, err error) {
	e := in.Envelope
	from := in.From.Within(e.Sender)
	switch e.Kind {
	case wire.Cast:
		take := b.casts.Load()
		if take == nil {
			return 0, errorf(CodeNoEndpoint, p.id.Actor(e.Actor).String(), e.Port, "proc %s takes no casts", p.id)
		}
		p.links.Quietly(func() { err = (*take)(from, e) }) // it may be answered at once
		if err != nil {
			return 0, err
		}
		return 1, nil
	case wire.Bounce:
		if !p.links.HasPosted(in.From) { // a stranger's word
			return 0, errorf(CodeInvalid, p.id.Actor(e.Actor).String(), e.Port, "nothing was posted to %s", in.From.ID())
		}
		p.comeBack(p.find(e.Actor), string(e.Ext), nil, FromWire(e.Body))
		return 1, nil
	}
	pt := p.findPort(e.Actor, e.Port)
	if pt == nil && e.Kind != wire.Message {
		p.counts.late.Add(1)
		return 1, nil
	}
	if pt == nil && e.Reply == "" && e.TTL == 0 && !strings.HasPrefix(e.Port, "_") {
		if to := p.find(e.Actor); to != nil {
			return to.deliverFar(&farRun{p: p, from: from, peer: in.From, actor: e.Actor, port: e.Port}, in)
		}
	}
	for i, lt := range in.Letters {
		if e.Body = lt.Body(in.Data); pt == nil {
			err = p.message(from, in.From, e)
		} else {
			p.links.Quietly(func() { // a relay sends it on
				err = pt.recv(Incoming{From: from, Envelope: *e, unknown: &p.counts.unknown, links: p.links})
			})
		}
		if err != nil {
			return i, err
		}
		p.links.Taken(in.From, uint64(lt.Wait)) // it does not wait for room
	}
	return len(in.Letters), nil
}

// message delivers a message to an endpoint. peer is the process it came from; nil for this one.
func (p *Proc) message(from subjects.ActorID, peer *link.Peer, e *wire.Envelope) (err error) {
	var d *Delivery
	if e.Reply == "" {
		d = &Delivery{}
	} else if d, err = p.inquiry(peer, e); err != nil {
		return err
	}
	d.Actor, d.Port, d.From, d.Raw, d.Reply = e.Actor, e.Port, from, e.Body, e.Reply
	if e.TTL > 0 {
		d.Deadline = time.Now().Add(e.TTL)
	}
	if strings.HasPrefix(e.Port, "_") { // it may be answered at once; and a watch is taken back by portForget
		p.links.Quietly(func() { err = p.deliver(d) })
		return err
	}
	d.cancelable(&p.process.asked)
	if err = p.deliver(d); err != nil {
		d.forget()
	}
	return err
}
