package actor

import (
	"errors"
	"slices"
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
	Links          link.Stats `json:"links"`
	Malformed      uint64     `json:"malformed"`       // undecodable, or without a sender
	Late           uint64     `json:"late"`            // answers without a waiting caller
	Undeliverable  uint64     `json:"undeliverable"`   // came here and found no mailbox
	Bounced        uint64     `json:"bounced"`         // sent from here and came back
	Fenced         uint64     `json:"fenced"`          // from a dead proc
	Foreign        uint64     `json:"foreign"`         // came from plain NATS clients
	Unknown        uint64     `json:"unknown"`         // with fields unknown to this build
	IgnoredReplies uint64     `json:"ignored_replies"` // replies to requests of this process that were no answers
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

// Add adds up the counts of two procs.
func (s Stats) Add(o Stats) Stats {
	return Stats{
		Links: s.Links.Add(o.Links), Malformed: s.Malformed + o.Malformed, Late: s.Late + o.Late,
		Undeliverable: s.Undeliverable + o.Undeliverable, Bounced: s.Bounced + o.Bounced,
		Fenced: s.Fenced + o.Fenced, Foreign: s.Foreign + o.Foreign, Unknown: s.Unknown + o.Unknown,
		IgnoredReplies: s.IgnoredReplies + o.IgnoredReplies,
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
	_, err := p.inbox.subscribe(p.bus.Data(), handle, subject)
	return err
}

// subscriber is a bus connection, or a lossy Inbox.
type subscriber interface {
	Subscribe(subject string, handle func(bus.Msg)) (*bus.Sub, error)
}

// subscribe subscribes all subjects, or none, until end is called or the inbox is closed.
func (b *inbox) subscribe(on subscriber, handle func(bus.Msg), subjects ...string) (end func(), err error) {
	var made []*bus.Sub
	undo := func() {
		b.mu.Lock()
		b.subs = slices.DeleteFunc(b.subs, func(s *bus.Sub) bool { return slices.Contains(made, s) })
		b.mu.Unlock()
		for _, sub := range made {
			b.unsubscribe(sub)
		}
	}
	defer func() {
		if err != nil {
			undo()
		}
	}()
	for _, subject := range subjects {
		sub, err := on.Subscribe(subject, handle)
		if err != nil {
			return nil, err
		}
		made = append(made, sub)
	}
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.subs = append(b.subs, made...)
	}
	b.mu.Unlock()
	if closed {
		return nil, b.p.stopped()
	}
	return undo, nil
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

func (b *inbox) malformed(m bus.Msg, err error) {
	linkHandler{b.p}.Malformed(m.Subject, len(m.Data), err)
}

// Deliver takes messages from a link, on the data pump.
func (l linkHandler) Deliver(in *link.Inbound) (taken int, why []byte) {
	e := in.Envelope
	within := e.Actor
	p, name := l.process.find(within)
	var err error
	if p != nil {
		e.Actor = name
		taken, err = p.inbox.receive(in.From.ActorByLocalName(e.Sender), in)
		e.Actor = within
	} else {
		err = errorf(CodeNoProc, l.self.ActorByLocalName(within).String(), e.Port,
			"process %s has no such proc", l.self)
	}
	if err != nil {
		l.counts.undeliverable.Add(1)
		return taken, EncodeError(err)
	}
	return taken, nil
}

// receive takes messages from another proc up to the first refusal, and returns their number. Those
// of this process come without a peer.
func (b *inbox) receive(from subjects.ActorID, in *link.Inbound) (taken int, err error) {
	p := b.p
	e := in.Envelope
	switch e.Kind {
	case wire.Cast:
		return b.receiveCast(from, in.Sender, e)
	case wire.Bounce:
		if in.From != nil && !p.links.HasReturnable(in.From) { // a stranger's word
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
	if pt == nil && e.Reply == "" && e.TTL == 0 && !isSystemPort(e.Port) {
		return b.deliver(&Delivery{Actor: e.Actor, Port: e.Port, From: from, Sender: in.Sender,
			Trace: e.CopyTrace(), Raw: in.Data, bodies: in.Bodies, credited: e.Wait && in.From != nil}, nil)
	}
	for _, body := range in.Bodies {
		e.Body = body.Body(in.Data)
		if pt == nil {
			err = b.receiveRequest(from, in.From, in.Sender, e)
		} else if in.Sender.Role() == subjects.Observer {
			err = denied(p.id.Actor(e.Actor).String(), e.Port, subjects.Observer, nil)
		} else {
			p.links.WithoutFlush(func() { // a relay sends it on
				at := Incoming{From: from, Envelope: *e, unknown: &p.counts.unknown}
				if in.From != nil {
					at.links = p.links
					at.credited = e.Wait
				}
				err = pt.recv(at)
			})
		}
		if err != nil {
			return taken, err
		}
		taken++
	}
	return taken, nil
}

// receiveCast takes a cast that is addressed to this proc alone.
func (b *inbox) receiveCast(from subjects.ActorID, by subjects.Sender,
	e *wire.Envelope) (taken int, err error) {
	p := b.p
	take := p.casts.receiver.Load()
	if take == nil {
		return 0, errorf(CodeNoEndpoint, p.id.Actor(e.Actor).String(), e.Port, "proc %s takes no casts", p.id)
	}
	p.links.WithoutFlush(func() { err = (*take)(from, by, e) }) // it may be answered at once
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// receiveRequest delivers a message that has an answer, a deadline or a port of the runtime. peer
// is the sending process; nil for this one.
func (b *inbox) receiveRequest(
	from subjects.ActorID, peer *link.Peer, by subjects.Sender, e *wire.Envelope,
) error {
	p := b.p
	q, err := b.newRequest(peer, e)
	if err != nil {
		return err
	}
	q.Actor = e.Actor
	q.Port = e.Port
	q.From = from
	q.Sender = by
	q.Raw = e.Body
	q.Reply = e.Reply
	q.Trace = e.CopyTrace()
	if e.TTL > 0 {
		q.Deadline = time.Now().Add(e.TTL)
	}
	if isSystemPort(e.Port) { // it may be answered at once; and a watch is taken back by portDemonitor
		p.links.WithoutFlush(func() { err = b.serveSystem(q) })
		return err
	}
	if q.replyTo != nil {
		p.process.pending.add(q.Delivery)
	}
	_, err = b.deliver(q.Delivery, q)
	if err != nil {
		q.countAnswer()
	}
	return err
}

// newRequest makes the request of a message. Its reply port must be on the sending process: answers
// sent elsewhere would be forged ones.
func (b *inbox) newRequest(peer *link.Peer, e *wire.Envelope) (*request, error) {
	p := b.p
	if e.Reply == "" {
		return newRequest(), nil
	}
	home, err := subjects.ParsePortID(e.Reply)
	if err != nil { // a caller waits: an error of the handler does not end the actor
		p.counts.malformed.Add(1)
		p.sampledLog.Warn().Err(err).Msg("malformed reply port")
		q := newRequest()
		q.Answer = func(int, Answer) {}
		return q, nil
	}
	if peer != nil && home.Actor.Proc.Lead() != peer.Lead() {
		p.counts.malformed.Add(1)
		return nil, errorf(CodeBadMessage, p.id.Actor(e.Actor).String(), e.Port,
			"want a port of %s for the answer, got %q", peer.ID(), e.Reply)
	}
	return newRequestAt(replyTo{p: p, port: home, peer: peer}), nil
}

// deliverOrReject delivers a request, or notifies its sender of the refusal.
func (b *inbox) deliverOrReject(q *request) {
	if _, err := b.deliver(q.Delivery, q); err != nil {
		b.p.deadLetters.reject(q, "", err)
	}
}

// deliver puts the messages of a Delivery into the mailbox of their actor, up to the first refusal,
// and starts the actor. It returns their number. q is the request of the actor; nil: there are
// bodies.
func (b *inbox) deliver(d *Delivery, q *request) (taken int, err error) {
	taken, idle, err := b.put(d, q)
	if idle != nil {
		b.p.workers.start(idle)
	}
	return taken, err
}

// put is deliver without the start; idle is the actor to start, or nil.
func (b *inbox) put(d *Delivery, q *request) (taken int, idle *instance, err error) {
	if isSystemPort(d.Port) {
		return 0, nil, b.serveSystem(q)
	}
	p := b.p
	in := p.find(d.Actor)
	if in == nil {
		return 0, nil, errorf(CodeNoActor, p.id.Actor(d.Actor).String(), d.Port, "proc %s has no such actor",
			p.id)
	}
	if why := in.observerDenial(d); why != nil {
		return 0, nil, why
	}
	taken, wake, err := in.enqueue(d, q)
	if wake {
		idle = in
	}
	return taken, idle, err
}

// Ports of every actor served by the runtime, without its handler. Their names are all letters;
// ports opened by users have a 0 in front.
const (
	portDown      = "_down"   // answered with the actor's end
	portDemonitor = "_forget" // takes a _down back; the message is its reply port
	portLink      = "_link"   // the message is the actor to be linked to
	portInfo      = "_info"   // answered with an Info; of the client: the proc's
	portBounce    = "_back"   // receives dead letters
	// answered when the actor takes up its messages, or those of its port that the message names
	portCredit = "_credit"
)

// isSystemPort reports whether the runtime serves a port itself, or opened it.
func isSystemPort(name string) bool { return strings.HasPrefix(name, "_") }

// serveSystem serves the runtime's own ports of an actor of this proc.
func (b *inbox) serveSystem(q *request) error {
	p := b.p
	target := p.id.Actor(q.Actor).String()
	in := p.find(q.Actor)
	if q.Port != portInfo && !q.From.IsValid() {
		return errorf(CodeNoEndpoint, target, q.Port, "want a castnet process, got a plain NATS client")
	}
	if q.Sender.Role() == subjects.Observer && !isReadingPort(q.Port) {
		return denied(target, q.Port, subjects.Observer, nil)
	}
	switch q.Port {
	case portDown:
		return p.monitors.serve(q)
	case portDemonitor:
		var reply string
		if err := q.read(&reply); err != nil {
			return errorf(CodeBadMessage, target, q.Port, "%v", err)
		}
		p.monitors.remove(reply, q.From.Proc)
		return nil
	case portLink:
		var other subjects.ActorID
		if err := q.read(&other); err != nil {
			return errorf(CodeBadMessage, target, q.Port, "%v", err)
		}
		if other.Proc != q.From.Proc {
			return errorf(CodeBadMessage, target, q.Port,
				"want a link to an actor of the sender's proc %s, got %q", q.From.Proc, other)
		}
		if in == nil { // the linking actor watches it, too
			return nil
		}
		p.workers.run(func() { // it may wait for the server
			if err := in.linkTo(other); err != nil {
				p.sampledLog.Warn().Err(err).Stringer("to", other).
					Msg("cannot link to an actor of another proc")
			}
		})
		return nil
	case portInfo:
		if q.Actor == clientName {
			q.complete(p.Info(), nil)
			return nil
		}
		if in == nil {
			return errorf(CodeNoActor, target, q.Port, "proc %s has no such actor", p.id)
		}
		q.complete(in.info(), nil)
		return nil
	case portCredit:
		var port string
		if err := q.read(&port); err != nil {
			return errorf(CodeBadMessage, target, q.Port, "%v", err)
		}
		if p.workers.n.Load() >= maxCreditRequests {
			return errorf(CodeBacklog, target, q.Port, "too many senders wait for credit")
		}
		taken, ok := p.roomSignal(q.Actor, port, true)
		if !ok {
			return errorf(CodeNoActor, target, q.Port, "proc %s has no such actor", p.id)
		}
		p.workers.run(func() {
			if taken != nil {
				<-taken
			}
			q.complete(None{}, nil)
		})
		return nil
	}
	return p.ports.missingError(q.Actor, q.Port)
}

// read decodes a message for the runtime itself.
func (q *request) read(to any) error { return q.format.Decode(q.Raw, to) }
