package actor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Casts is the part of a proc that carries casts: one message to many processes, to the actors of
// this one, and the answers to it. It is for packages of castnet that carry casts; programs do not
// need it.
type Casts struct {
	p *Proc
	// see OnCast
	receiver atomic.Pointer[func(from subjects.ActorID, by subjects.Sender, e *wire.Envelope) error]
}

// Casts returns the part of the proc that carries casts.
func (p *Proc) Casts() *Casts { return &p.casts }

// Group is a set of ports in different processes, for repeated casts. Drop it.
type Group struct {
	to      []subjects.PortID
	targets []*target
	links   *link.Links
	group   *link.Group
	stale   atomic.Bool
}

// Group creates a group of ports in other processes, one per process. It returns an error if one of
// them is unreachable.
func (c *Casts) Group(to []subjects.PortID) (*Group, error) {
	g := &Group{to: to, links: c.p.links}
	members := make([]*link.Target, len(to))
	for i, port := range to {
		t, err := c.p.outbox.target(port.Actor, port.Port)
		if err != nil {
			return nil, err
		}
		g.targets = append(g.targets, t)
		members[i] = t.Target
	}
	g.group = link.NewGroup(members)
	return g, nil
}

// IsStale reports whether the links have forgotten a member: make another group.
func (g *Group) IsStale() bool { return g.stale.Load() }

// Drop ends the group.
func (g *Group) Drop() { g.links.DropGroup(g.group) }

// ReplyReceived reports that members of the group have answered the cast with number n.
func (g *Group) ReplyReceived(n uint64, members []int) { g.links.ReplyReceived(g.group, n, members) }

// Multicast is one message to a group.
type Multicast struct {
	Subject  string // where it goes; "": to each member by itself
	To       *Group
	Envelope wire.Envelope
	Type     string    // of the message, for people
	Until    time.Time // when its fate must be known; zero: the default
	// GroupExt and AloneExt return the ext of the packet to all, and of a packet to one member:
	// see link.Cast.
	GroupExt func(prevs []link.Run) ([]byte, error)
	AloneExt func() ([]byte, error)
	// OnFate takes the fate of a member that the message did not reach, on any goroutine; it must
	// not block. nil: the message becomes a dead letter.
	OnFate func(to subjects.ProcID, why *Error)
	// ReplyAcks lets the answers of receivers stand for acknowledgements; report them by
	// Group.ReplyReceived.
	ReplyAcks bool

	Seq uint64 // set: its number, for the receivers of the group's packet; 0: there are none
}

// fateFunc is a function as a fateObserver.
type fateFunc func(to subjects.ProcID, why *Error)

func (f fateFunc) onFate(to subjects.ProcID, why *Error) { f(to, why) }

// Multicast publishes one packet to many processes, as the next message on the link to each
// (DEL-3). If the link of a member cannot take it now, the member gets a packet of its own. failed
// holds the members without a packet, with the reasons.
func (c *Casts) Multicast(m *Multicast) (failed map[int]error, err error) {
	p := c.p
	e := m.Envelope
	if p.id.Index > 0 {
		e.Sender = p.id.Actor(e.Sender).LocalName()
	}
	k := &link.Cast{
		Subject: m.Subject, Group: m.To.group, Envelope: &e, Until: p.links.At(m.Until),
		GroupExt: m.GroupExt, AloneExt: m.AloneExt, Mark: link.Mark{Type: m.Type}, ReplyAcks: m.ReplyAcks,
	}
	if m.OnFate != nil {
		k.Mark.Call = fateFunc(m.OnFate)
	}
	failed, err = p.links.Cast(k)
	m.Seq = k.Seq
	for i, why := range failed {
		if errors.Is(why, link.ErrEvicted) {
			p.outbox.drop(m.To.targets[i])
			m.To.stale.Store(true)
		}
		to := m.To.to[i]
		failed[i] = p.outbox.sendError(to.Actor.Proc, to.Actor.String(), to.Port, why)
	}
	return failed, busError("", "", err)
}

// ReceivedCast is a received cast packet for many processes.
type ReceivedCast struct {
	Prev      uint64 // the packet that must come before: see link.Opened
	ReplyAcks bool   // see Multicast
	Deliver   func() error
	Reject    func() error // see link.CastHead
}

// Receive takes a cast from the bus, on the data pump: see link.Links.ReceiveCast. open gets its
// sender, too.
func (c *Casts) Receive(m bus.Msg, s subjects.Subject,
	open func(from subjects.ActorID, n uint64, e *wire.Envelope) (ReceivedCast, error)) {
	p := c.p
	p.links.ReceiveCast(m, s, func(n uint64, e *wire.Envelope) (link.CastHead, error) {
		from, err := s.Sender.Process()
		if err != nil {
			return link.CastHead{}, err
		}
		k, err := open(from.ActorByLocalName(e.Sender), n, e)
		deliver := func() []byte {
			var err error
			p.links.WithoutFlush(func() { err = k.Deliver() })
			if err != nil {
				p.counts.undeliverable.Add(1)
				return EncodeError(err)
			}
			return nil
		}
		return link.CastHead{PrevSeq: k.Prev, ReplyAcks: k.ReplyAcks, Reject: k.Reject, Deliver: deliver}, err
	})
}

// Trace is the trace of a cast with the context, as its header has it; nil: none.
func (c *Casts) Trace(ctx context.Context) []byte { return originOf(ctx).ext() }

// Hops is the trace of a sampled cast with the context, for the servers on its way; nil: none.
func (c *Casts) Hops(ctx context.Context) *wire.Hops {
	t := originOf(ctx).trace
	if !t.IsSampled() {
		return nil
	}
	dest, _ := ctx.Value(traceDestKey{}).(string)
	return &wire.Hops{Trace: t, Dest: dest}
}

// SelfCall returns the error of a request of an actor to itself on its turn, which ctx belongs to;
// nil: it is none.
func (c *Casts) SelfCall(ctx context.Context, actor, endpoint string) error {
	in := c.p.find(actor)
	if in == nil {
		return nil
	}
	if why := selfCallError(ctx, in, endpoint); why != nil {
		return why
	}
	return nil
}

// ReplySent reports that the answer to the cast with number n of a process has been sent.
func (c *Casts) ReplySent(from subjects.ProcessID, n uint64) { c.p.links.ReplySent(from, n) }

// OnCast sets the receiver of casts addressed to this proc alone, on the data pump.
func (c *Casts) OnCast(take func(from subjects.ActorID, by subjects.Sender, e *wire.Envelope) error) {
	c.receiver.Store(&take)
}

// LocalRecipient is one recipient of a cast.
type LocalRecipient struct {
	Proc *Proc
	View int // its rank in the view of the cast
}

// requestChunk is the number of requests that share memory. A kept Context keeps its whole chunk.
const requestChunk = 16

// DeliverAll puts a cast into the mailbox of each actor. A refused rank answers with the reason, or
// the sender gets a dead letter. A few goroutines run the actors one after another, as long as
// no handler blocks. The message is decoded once, if its type allows.
func (c *Casts) DeliverAll(d *Delivery, to []LocalRecipient) {
	d.shared = !isSystemPort(d.Port) // else the runtime answers by itself
	d.unanswered.Store(int64(len(to)))
	var chunk []request
	last := &d.requests
	for i, r := range to {
		if len(chunk) == 0 {
			chunk = make([]request, min(requestChunk, len(to)-i))
		}
		q := &chunk[0]
		chunk = chunk[1:]
		q.Delivery = d
		q.view = r.View
		*last = q
		last = &q.next
	}
	if d.shared && d.Reply != "" && d.Answer != nil {
		c.p.process.pending.add(d)
	}
	wake := make([]*instance, 0, len(to))
	q := d.requests
	for _, r := range to {
		_, idle, err := r.Proc.inbox.put(d, q)
		if err != nil {
			q.refuse(r.Proc, err)
		} else if idle != nil {
			wake = append(wake, idle)
		}
		q = q.next
	}
	c.p.workers.startQueued(wake...)
}

// DeliverOne is DeliverAll for one actor and no answer. The error is for the sender.
func (c *Casts) DeliverOne(d *Delivery, view int) error {
	q := &request{view: view}
	q.bind(d)
	_, err := c.p.inbox.deliver(d, q)
	return err
}

// Bounce returns a message to its sender as a dead letter for one rank.
func (c *Casts) Bounce(d *Delivery, why error) { c.p.deadLetters.giveBack(d, "", why) }

// BounceTo returns a message as a dead letter to its sending actor in this proc: see
// DeadLetterHandler. "" stands for the client.
func (c *Casts) BounceTo(from, typ string, why *Error) {
	c.p.deadLetters.bounce(c.p.find(from), typ, nil, why)
}

// SendAnswer sends an actor's answer to a port, with an ext of the caller's own.
func (c *Casts) SendAnswer(actor string, to subjects.PortID, a Answer, ext []byte) {
	e, err := a.envelope()
	e.Ext = ext
	c.p.outbox.sendAnswer(actor, &replyTo{port: to}, &e, err)
}

// CancelRequest notifies another proc, and its colocated procs, that no caller waits for answers to
// a reply port.
func (c *Casts) CancelRequest(to subjects.ProcID, reply string) {
	p := c.p
	t, err := p.outbox.target(to.Actor(clientName), portInfo) // any port: the request goes to its process
	if err == nil {
		p.links.Cancel(t.Peer, reply)
	} else if errors.Is(err, errColocated) {
		p.process.pending.cancel(p.self, reply)
	}
}

// AnswerType describes the answers of an actor's endpoint. The actor may be in any proc of this
// process, and may have ended.
func (c *Casts) AnswerType(actor, endpoint string) (AnswerType, error) {
	m := c.p.methodOf(actor, endpoint)
	if m != nil { // most casts reach the first proc
		return AnswerType{m}, nil
	}
	for _, p := range c.p.process.procs() {
		m = p.methodOf(actor, endpoint)
		if m != nil {
			return AnswerType{m}, nil
		}
	}
	return AnswerType{}, fmt.Errorf("process %s has no actor %s with an endpoint %s", c.p.self, actor,
		endpoint)
}

// methodOf returns the bound endpoint of an actor; nil if there is none.
func (p *Proc) methodOf(actor, endpoint string) *method {
	in := p.find(actor)
	if in == nil {
		return nil
	}
	return in.def.methods[endpoint]
}
