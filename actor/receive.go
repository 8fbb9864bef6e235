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

// counters counts messages that a proc could not use.
type counters struct {
	malformed, lateAnswers, undeliverable, bounced, foreign, unknown atomic.Uint64
}

// Stats counts messages of a proc since it started.
type Stats struct {
	Links         link.Stats
	Malformed     uint64 // undecodable, or without a sender
	Late          uint64 // answers without a waiting caller
	Undeliverable uint64 // came here and found no mailbox
	Bounced       uint64 // sent from here and came back
	Fenced        uint64 // from a dead proc
	Foreign       uint64 // came from plain NATS clients
	Unknown       uint64 // with fields unknown to this build
	PassedOver    uint64 // replies to requests of this process that were no answers
}

// Stats returns the counts so far.
func (p *Proc) Stats() Stats {
	c := &p.counts
	links := p.links.Stats()
	return Stats{
		Links: links, Malformed: c.malformed.Load() + links.Malformed, Late: c.lateAnswers.Load(),
		Undeliverable: c.undeliverable.Load(), Bounced: c.bounced.Load(), Fenced: links.Fenced,
		Foreign: c.foreign.Load(), Unknown: c.unknown.Load(), PassedOver: p.bus.IgnoredReplies(),
	}
}

// receivePort takes messages from the bus for this proc's ports, on the data pump.
func (p *Proc) receivePort(m bus.Msg) {
	s, err := p.space.Parse(m.Subject)
	switch {
	case err != nil:
		p.RefuseForeign(m, err)
	case !wire.IsPacket(m.Data):
		p.DeliverForeign(s.Actor, s.Port, ForeignMessage{Msg: m, From: s.From})
	default:
		p.links.Receive(m, s)
	}
}

// receivePacket takes packets from the bus for this process, on the data pump.
func (p *Proc) receivePacket(m bus.Msg) {
	if s, err := p.space.Parse(m.Subject); err != nil {
		p.malformed(m, err)
	} else {
		p.links.Receive(m, s)
	}
}

// receiveControl takes link control messages of peers, on the control pump.
func (p *Proc) receiveControl(m bus.Msg) {
	if s, err := p.space.Parse(m.Subject); err != nil {
		p.malformed(m, err)
	} else {
		p.links.ReceiveControl(m, s)
	}
}

// receiveHint takes the server's report that a published message had no subscriber.
func (p *Proc) receiveHint(m bus.Msg) {
	if s, err := p.space.Parse(m.Subject); err != nil {
		p.malformed(m, err)
	} else {
		p.links.ReceiveHint(m, s)
	}
}

// ReceivedCast is a received cast packet for many processes.
type ReceivedCast struct {
	Prev      uint64 // the packet that must come before: see link.Opened
	ReplyAcks bool   // see Multicast
	Deliver   func() error
}

// ReceiveCast takes a cast from the bus, on the data pump: see link.Links.ReceiveCast. open gets
// its sender, too.
func (p *Proc) ReceiveCast(m bus.Msg, s subjects.Subject,
	open func(from subjects.ActorID, n uint64, e *wire.Envelope) (ReceivedCast, error)) {
	p.links.ReceiveCast(m, s, func(n uint64, e *wire.Envelope) (link.CastHead, error) {
		from, err := subjects.ParseProcessID(s.From)
		if err != nil {
			return link.CastHead{}, err
		}
		k, err := open(from.ActorByLocalName(e.Sender), n, e)
		return link.CastHead{PrevSeq: k.Prev, ReplyAcks: k.ReplyAcks, Deliver: func() []byte {
			var err error
			p.links.WithoutFlush(func() { err = k.Deliver() })
			if err != nil {
				p.counts.undeliverable.Add(1)
				return EncodeError(err)
			}
			return nil
		}}, err
	})
}

// CastReplySent reports that the answer to the cast with number n of a process has been sent.
func (p *Proc) CastReplySent(from subjects.ProcessID, n uint64) { p.links.ReplySent(from, n) }

// OnCast sets the receiver of casts addressed to this proc alone, on the data pump.
func (p *Proc) OnCast(take func(from subjects.ActorID, e *wire.Envelope) error) {
	p.inbound.casts.Store(&take)
}

// deliverToPort hands an envelope of this proc's own to a port.
func (p *Proc) deliverToPort(actor, name string, from subjects.ActorID, e wire.Envelope) {
	pt := p.findPort(actor, name)
	if pt == nil {
		p.counts.lateAnswers.Add(1)
		return
	}
	if err := pt.recv(Incoming{From: from, Envelope: e, unknown: &p.counts.unknown}); err != nil {
		p.rejectDelivery(&Delivery{Actor: actor, Port: name, From: from}, err)
	}
}

// AnswerFunc returns the Answer of a delivery with a reply port; nil without one.
func (p *Proc) AnswerFunc(actor, reply string) func(Answer) {
	if reply == "" {
		return nil
	}
	at, ok := p.parseReplyPort(reply)
	if !ok { // a caller waits: an error of the handler does not end the actor
		return func(Answer) {}
	}
	return func(a Answer) { p.sendAnswer(actor, at, a, nil) }
}

// parseReplyPort reads a reply port.
func (p *Proc) parseReplyPort(reply string) (replyPort, bool) {
	at, err := subjects.ParsePortID(reply)
	if err != nil {
		p.counts.malformed.Add(1)
		p.sampledLog.Warn().Err(err).Msg("malformed reply port")
	}
	return replyPort{port: at}, err == nil
}

// Deliver puts a message into a mailbox of this proc, or notifies the sender of the refusal.
func (p *Proc) Deliver(d Delivery) {
	if err := p.deliver(&d); err != nil {
		p.rejectDelivery(&d, err)
	}
}

func (p *Proc) deliver(d *Delivery) error {
	in := p.find(d.Actor)
	if strings.HasPrefix(d.Port, "_") {
		return p.deliverSystem(d)
	}
	if in == nil {
		return p.noActor(d.Actor, d.Port)
	}
	return in.deliver(d)
}

func (p *Proc) noActor(actor, port string) *Error {
	return errorf(CodeNoActor, p.id.Actor(actor).String(), port, "proc %s has no such actor", p.id)
}

func (p *Proc) malformed(m bus.Msg, err error) { linkHandler{p}.Malformed(m.Subject, len(m.Data), err) }

// inbound is the data pump's state for delivering messages.
type inbound struct {
	casts atomic.Pointer[func(from subjects.ActorID, e *wire.Envelope) error]
}

// deliver delivers messages up to the first refusal, and returns their number.
func (b *inbound) deliver(p *Proc, in *link.Inbound) (taken int, err error) {
	e := in.Envelope
	from := in.From.ActorByLocalName(e.Sender)
	switch e.Kind {
	case wire.Cast:
		take := b.casts.Load()
		if take == nil {
			return 0, errorf(CodeNoEndpoint, p.id.Actor(e.Actor).String(), e.Port, "proc %s takes no casts",
				p.id)
		}
		p.links.WithoutFlush(func() { err = (*take)(from, e) }) // it may be answered at once
		if err != nil {
			return 0, err
		}
		return 1, nil
	case wire.Bounce:
		if !p.links.HasReturnable(in.From) { // a stranger's word
			return 0, errorf(CodeInvalid, p.id.Actor(e.Actor).String(), e.Port, "no message was sent to %s",
				in.From.ID())
		}
		p.bounceLocal(p.find(e.Actor), string(e.Ext), nil, FromWire(e.Body))
		return 1, nil
	}
	pt := p.findPort(e.Actor, e.Port)
	if pt == nil && e.Kind != wire.Message {
		p.counts.lateAnswers.Add(1)
		return 1, nil
	}
	if pt == nil && e.Reply == "" && e.TTL == 0 && !strings.HasPrefix(e.Port, "_") {
		if to := p.find(e.Actor); to != nil {
			return to.enqueueRemote(&remoteBatch{p: p, from: from, peer: in.From, actor: e.Actor,
				port: e.Port}, in)
		}
	}
	for i, lt := range in.Bodies {
		e.Body = lt.Body(in.Data)
		if pt == nil {
			err = p.deliverMessage(from, in.From, e)
		} else {
			p.links.WithoutFlush(func() { // a relay sends it on
				err = pt.recv(Incoming{From: from, Envelope: *e, unknown: &p.counts.unknown, links: p.links})
			})
		}
		if err != nil {
			return i, err
		}
		p.links.Consumed(in.From, uint64(lt.Wait)) // it does not wait for room
	}
	return len(in.Bodies), nil
}

// deliverMessage delivers a message to an endpoint. peer is the process it came from; nil for this
// one.
func (p *Proc) deliverMessage(from subjects.ActorID, peer *link.Peer, e *wire.Envelope) (err error) {
	var d *Delivery
	if e.Reply == "" {
		d = &Delivery{}
	} else {
		d, err = p.newRequest(peer, e)
		if err != nil {
			return err
		}
	}
	d.Actor = e.Actor
	d.Port = e.Port
	d.From = from
	d.Raw = e.Body
	d.Reply = e.Reply
	if e.TTL > 0 {
		d.Deadline = time.Now().Add(e.TTL)
	}
	if strings.HasPrefix(e.Port, "_") { // it may be answered at once; and a watch is taken back by portForget
		p.links.WithoutFlush(func() { err = p.deliver(d) })
		return err
	}
	d.registerCancel(&p.process.pending)
	err = p.deliver(d)
	if err != nil {
		d.unregisterCancel()
	}
	return err
}
