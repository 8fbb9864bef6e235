package actor

import (
	"context"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// LimitWaits sets the credit of SendWait to an endpoint of another proc.
func (p *Proc) LimitWaits(bytes int64) { p.outbox.waitWindow = bytes }

// ForgetTargets forgets the targets in other procs, as a full table does.
func (p *Proc) ForgetTargets() {
	p.outbox.mu.Lock()
	defer p.outbox.mu.Unlock()
	p.outbox.forget()
	p.outbox.last.Store(nil)
}

// Waiting says how many ports are open and how many calls wait.
func (p *Proc) Waiting() (ports, calls int) {
	p.ports.mu.Lock()
	defer p.ports.mu.Unlock()
	for _, pt := range p.ports.open {
		if _, is := pt.(*call); is {
			calls++
		}
	}
	return len(p.ports.open), calls
}

// Receive hands the proc a message as the bus would: on its ports, its control connection, as a
// hint, or as the event of a proc.
func (p *Proc) Receive(where int, m bus.Msg) {
	[]func(bus.Msg){p.inbox.receivePort, p.inbox.parsed(p.links.ReceiveControl),
		p.inbox.parsed(p.links.ReceiveHint), p.Members().receiveProcEvent,
		p.inbox.parsed(p.links.Receive)}[where%5](m)
}

// DeliverLocal puts a message of this proc into a mailbox, as its sender's own value.
func (p *Proc) DeliverLocal(actor, endpoint string, m any, answer func(Answer)) {
	q := p.newLocalRequest(context.Background(), clientName, actor, endpoint, m)
	q.Answer = func(_ int, a Answer) { answer(a) }
	p.inbox.deliverOrReject(q)
}

// Respond sends an envelope to a port with a waiting caller.
func (p *Proc) Respond(to subjects.PortID, e wire.Envelope) error {
	return p.outbox.respond(&replyTo{port: to}, e)
}

// LinkOver reports the end of a link, as the links do.
func (p *Proc) LinkOver(peer subjects.ProcessID, serial uint64) {
	linkHandler{p}.Broken(peer, serial, &link.Error{Reason: link.LinkReset, Text: "enough"})
}

// Bounds of a proc's memory of the past.
const (
	MaxEnded = maxEnded
	MaxDown  = maxDeathRanges
)

// Bound is the proc that sends for code outside an actor.
func (r Ref[A]) Bound() *Proc { return r.via }

// GivenUp counts the waiting messages with a canceled sender.
func (p *Proc) GivenUp(actor string) (n int) {
	p.process.pending.mu.Lock()
	defer p.process.pending.mu.Unlock()
	for _, d := range p.process.pending.all {
		if d.Actor == actor && d.requests.ctx.cancelled.Load() {
			n++
		}
	}
	return n
}

// Because is an event with a cause.
func (e Event) Because(cause *Event) Event { return e.withCause(cause) }

// Ends counts the remembered ends of procs, with one event as one.
func (p *Proc) Ends() int {
	m := p.Members()
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.dead.order)
}
