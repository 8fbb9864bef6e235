package actor

import (
	"errors"
	"strings"
	"sync"
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
	Links          link.Stats
	Malformed      uint64 // undecodable, or without a sender
	Late           uint64 // answers without a waiting caller
	Undeliverable  uint64 // came here and found no mailbox
	Bounced        uint64 // sent from here and came back
	Fenced         uint64 // from a dead proc
	Foreign        uint64 // came from plain NATS clients
	Unknown        uint64 // with fields unknown to this build
	IgnoredReplies uint64 // replies to requests of this process that were no answers
}

// Stats returns the counts so far.
func (p *Proc) Stats() Stats {
	c := &p.counts
	links := p.links.Stats()
	return Stats{
		Links: links, Malformed: c.malformed.Load() + links.Malformed, Late: c.lateAnswers.Load(),
		Undeliverable: c.undeliverable.Load(), Bounced: c.bounced.Load(), Fenced: links.Fenced,
		Foreign: c.foreign.Load(), Unknown: c.unknown.Load(), IgnoredReplies: p.bus.IgnoredReplies(),
	}
}

// inbox holds the subscriptions of a proc, and takes the messages that come by them.
type inbox struct {
	p *Proc

	mu     sync.Mutex // guards the fields below
	subs   []*bus.Sub
	closed bool // receives nothing more
}

// close ends everything the proc receives.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	subs := b.subs
	b.subs = nil
	b.mu.Unlock()
	for _, s := range subs {
		b.unsubscribe(s)
	}
}

func (b *inbox) unsubscribe(s *bus.Sub) {
	if err := s.Unsubscribe(); err != nil && !errors.Is(err, bus.ErrClosed) {
		b.p.log.Debug().Err(err).Msg("cannot unsubscribe")
	}
}

// Subscribe receives a subject on the data connection, in order with the messages of ports, until
// the proc closes. handle runs on the connection's pump and must not block.
func (p *Proc) Subscribe(subject string, handle func(bus.Msg)) error {
	return p.inbox.subscribe(p.bus.Data(), handle, subject)
}

// subscriber is a bus connection, or a lossy Inbox.
type subscriber interface {
	Subscribe(subject string, handle func(bus.Msg)) (*bus.Sub, error)
}

// subscribe subscribes all subjects, or none.
func (b *inbox) subscribe(on subscriber, handle func(bus.Msg), subjects ...string) (err error) {
	var made []*bus.Sub
	defer func() {
		if err != nil {
			for _, sub := range made {
				b.unsubscribe(sub)
			}
		}
	}()
	for _, subject := range subjects {
		sub, err := on.Subscribe(subject, handle)
		if err != nil {
			return err
		}
		made = append(made, sub)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return b.p.stopped()
	}
	b.subs = append(b.subs, made...)
	return nil
}

// receivePort takes messages from the bus for this proc's ports, on the data pump.
func (b *inbox) receivePort(m bus.Msg) {
	p := b.p
	s, err := p.space.Parse(m.Subject)
	switch {
	case err != nil:
		p.foreign.Refuse(m, err)
	case !wire.IsPacket(m.Data):
		p.foreign.Deliver(s.Actor, s.Port, ForeignMessage{Msg: m, From: s.Sender})
	default:
		p.links.Receive(m, s)
	}
}

// parsed returns a handler that takes messages with their parsed subjects.
func (b *inbox) parsed(take func(bus.Msg, subjects.Subject)) func(bus.Msg) {
	return func(m bus.Msg) {
		if s, err := b.p.space.Parse(m.Subject); err != nil {
			b.malformed(m, err)
		} else {
			take(m, s)
		}
	}
}

// deliverToPort hands an envelope of this proc's own to a port.
func (b *inbox) deliverToPort(actor, name string, from subjects.ActorID, e wire.Envelope) {
	p := b.p
	pt := p.ports.find(actor, name)
	if pt == nil {
		p.counts.lateAnswers.Add(1)
		return
	}
	if err := pt.recv(Incoming{From: from, Envelope: e, unknown: &p.counts.unknown}); err != nil {
		p.deadLetters.reject(&Delivery{Actor: actor, Port: name, From: from}, err)
	}
}

// parseReplyPort reads a reply port.
func (b *inbox) parseReplyPort(reply string) (replyPort, bool) {
	at, err := subjects.ParsePortID(reply)
	if err != nil {
		b.p.counts.malformed.Add(1)
		b.p.sampledLog.Warn().Err(err).Msg("malformed reply port")
	}
	return replyPort{port: at}, err == nil
}

// deliverOrReject puts a message into a mailbox of this proc, or notifies the sender of the
// refusal.
func (p *Proc) deliverOrReject(d Delivery) {
	if err := p.deliver(&d); err != nil {
		p.deadLetters.reject(&d, err)
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

func (b *inbox) malformed(m bus.Msg, err error) {
	linkHandler{b.p}.Malformed(m.Subject, len(m.Data), err)
}

// deliverInbound delivers messages up to the first refusal, and returns their number.
func (b *inbox) deliverInbound(in *link.Inbound) (taken int, err error) {
	p := b.p
	e := in.Envelope
	from := in.From.ActorByLocalName(e.Sender)
	switch e.Kind {
	case wire.Cast:
		take := p.casts.receiver.Load()
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
		p.deadLetters.bounce(p.find(e.Actor), string(e.Ext), nil, FromWire(e.Body))
		return 1, nil
	}
	pt := p.ports.find(e.Actor, e.Port)
	if pt == nil && e.Kind != wire.Message {
		p.counts.lateAnswers.Add(1)
		return 1, nil
	}
	if pt == nil && e.Reply == "" && e.TTL == 0 && !strings.HasPrefix(e.Port, "_") {
		if to := p.find(e.Actor); to != nil {
			return to.enqueueRemote(&remoteBatch{p: p, from: from, actor: e.Actor, port: e.Port,
				trace: e.CopyTrace()}, in)
		}
	}
	for i, lt := range in.Bodies {
		e.Body = lt.Body(in.Data)
		if pt == nil {
			err = b.deliverMessage(from, in.From, e)
		} else {
			p.links.WithoutFlush(func() { // a relay sends it on
				err = pt.recv(Incoming{From: from, Envelope: *e, unknown: &p.counts.unknown, links: p.links})
			})
		}
		if err != nil {
			return i, err
		}
	}
	return len(in.Bodies), nil
}

// deliverMessage delivers a message to an endpoint. peer is the process it came from; nil for this
// one.
func (b *inbox) deliverMessage(from subjects.ActorID, peer *link.Peer, e *wire.Envelope) (err error) {
	p := b.p
	var d *Delivery
	if e.Reply == "" {
		d = &Delivery{}
	} else {
		d, err = b.newRequest(peer, e)
		if err != nil {
			return err
		}
	}
	d.Actor = e.Actor
	d.Port = e.Port
	d.From = from
	d.Raw = e.Body
	d.Reply = e.Reply
	d.trace = e.CopyTrace()
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
