package actor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// urgeAgain is how long a message that was urged may be unanswered before it is sent once more, at first.
const urgeAgain = time.Second

// Urgent lets an endpoint's messages come by the control lane, too (Urge): the handler may see one several times,
// and before what its sender sent earlier (Context.Urged).
func (m Method[A]) Urgent() Method[A] {
	if m.m != nil {
		m.m.urgent = true
	}
	return m
}

// Urged reports whether the message came by the control lane: it may have overtaken what its sender sent before, and
// comes again, in its order. An error says nothing to who asked then: that one's answer does.
func (c *Context) Urged() bool {
	d := c.delivery()
	return d != nil && d.urged
}

// Urge is Call for what must not wait for data (ACT-12): to an actor in another process the message goes by the
// control lane as well, again and again until it is answered. The first answer counts, but no error of that lane.
func (e Endpoint[A, M, R]) Urge(ctx context.Context, to Ref[A], m M) (R, error) {
	p, from, err := e.prepare(ctx, &to)
	if err != nil {
		var none R
		return none, err
	}
	if p.process.has(to.id.Proc) {
		return e.Call(ctx, to, m)
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return Open[R](urge(ctx, p, from, to.id, e.d.name, m))
}

// urge asks on both lanes, and waits.
func urge[M any](ctx context.Context, p *Proc, from string, to subjects.ActorID, endpoint string, m M) Answer {
	if ctx.Err() != nil {
		return Answer{Err: fromContext(ctx, to.String(), endpoint)}
	}
	lead, body, err := encode(nil, m)
	if err != nil {
		return Answer{Err: errorf(CodeInvalid, to.String(), endpoint, "%v", err)}
	}
	t, err := p.target(to, endpoint)
	if err != nil {
		return Answer{Err: err}
	}
	c := &call{to: to, waiting: waiting{seat: p.seats.take(0)}}
	defer p.seats.leave(c.seat)
	p.address(c, from)
	if !p.openPort(c.key, c) { // the answer could not come
		return Answer{Err: p.stopped()}
	}
	defer p.closePort(c.key, c)
	u := &urging{
		p: p, peer: t.Peer, call: c, endpoint: endpoint, pause: urgeAgain,
		envelope: wire.Envelope{Kind: wire.Message, Sender: from, Reply: c.at, Lead: lead, Body: body},
	}
	u.until, _ = ctx.Deadline()
	if err := u.send(); err != nil && c.state.CompareAndSwap(open, abandoned) {
		return Answer{Err: err}
	}
	defer u.end()
	return p.await(ctx, c, endpoint)
}

// urging is a message on its way on both lanes.
type urging struct {
	p        *Proc
	peer     *link.Peer
	call     *call
	endpoint string
	envelope wire.Envelope
	until    time.Time

	mu     sync.Mutex // guards the fields below
	queued bool       // it is among the data
	over   bool
	pause  time.Duration
	timer  *time.Timer
}

// send sends the message by the control lane, and queues it among the data once there is room.
func (u *urging) send() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return nil
	}
	e := u.envelope
	e.TTL = max(time.Until(u.until), time.Millisecond) // 0 is no deadline
	control := e
	control.Actor, control.Port = u.call.to.Within(), u.endpoint
	if u.p.id.Seat > 0 {
		control.Sender = u.p.id.Actor(e.Sender).Within()
	}
	u.p.links.Urge(u.peer, &control)
	u.timer = time.AfterFunc(u.pause, u.again)
	u.pause *= 2
	if u.queued {
		return nil
	}
	err := u.p.send(&outbound{to: u.call.to, port: u.endpoint, envelope: e, mark: link.Mark{Call: u.call}, until: u.until})
	if errors.Is(err, ErrBacklog) {
		return nil
	}
	u.queued = err == nil
	if err != nil {
		u.timer.Stop()
	}
	return err
}

func (u *urging) again() {
	if err := u.send(); err != nil {
		u.call.got(Answer{Err: err})
	}
}

func (u *urging) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	u.timer.Stop()
}

// Urgent takes a message, or an answer, that came by the control lane, on its pump. What it cannot use comes again,
// in its order, and is refused then.
func (l linked) Urgent(from *link.Peer, e *wire.Envelope) {
	p, name := l.process.find(e.Actor)
	if p == nil {
		return
	}
	sender := from.Within(e.Sender)
	if e.Kind == wire.Message {
		p.urged(sender, from, name, e)
		return
	}
	c, is := p.findPort(name, e.Port).(*call)
	if !is {
		p.counts.late.Add(1)
	} else if err := c.recv(Incoming{From: sender, Envelope: *e, unknown: &p.counts.unknown}); err != nil {
		p.counts.malformed.Add(1)
	}
}

// urged delivers a message of the control lane.
func (p *Proc) urged(from subjects.ActorID, peer *link.Peer, actor string, e *wire.Envelope) {
	home, err := subjects.ParsePortID(e.Reply)
	if err != nil || home.Actor.Proc.Lead() != peer.Lead() {
		p.counts.malformed.Add(1)
		return
	}
	in := p.find(actor)
	if in == nil || in.def.methods[e.Port] == nil || !in.def.methods[e.Port].urgent {
		return
	}
	if again := p.process.urged.answer(e.Reply); again != nil {
		p.links.Urge(peer, again)
		return
	}
	d := &Delivery{Actor: actor, Port: e.Port, From: from, Raw: e.Body, Reply: e.Reply, urged: true}
	if e.TTL > 0 {
		d.Deadline = time.Now().Add(e.TTL)
	}
	d.Answer = func(a Answer) {
		body, err := wire.AppendMarshal(nil, a.Value)
		if a.Err != nil || err != nil {
			p.process.urged.forget(e.Reply)
			return
		}
		answer := &wire.Envelope{
			Kind: wire.Value, Actor: home.Actor.Within(), Port: home.Port, Sender: p.id.Actor(actor).Within(), Body: body,
		}
		p.process.urged.answered(e.Reply, answer)
		p.links.Urge(peer, answer)
	}
	if err := in.deliver(d); err != nil { // see Urgent
		p.process.urged.forget(e.Reply)
	}
}

// urgents are the newest messages that may come by both lanes, by their reply ports: each is taken once by the
// control lane, and not after it was taken in its order, for then it speaks of what was before.
type urgents struct {
	mu    sync.Mutex
	all   map[string]*urgent
	order []string // oldest first; some may be forgotten
}

type urgent struct {
	ordered bool           // it was taken in its order
	answer  *wire.Envelope // to the other
}

const maxUrgents = 256

// takes reports whether a message is to be handled, and notes it.
func (u *urgents) takes(d *Delivery) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.all[d.Reply]
	switch {
	case known == nil:
		u.add(d.Reply, &urgent{ordered: !d.urged})
	case d.urged:
		return false
	default:
		known.ordered = true
	}
	return true
}

// add notes a message in the place of the oldest. The lock is held.
func (u *urgents) add(reply string, m *urgent) {
	if u.all == nil {
		u.all = map[string]*urgent{}
	}
	if len(u.order) == maxUrgents {
		delete(u.all, u.order[0])
		u.order = append(u.order[:0], u.order[1:]...)
	}
	u.all[reply], u.order = m, append(u.order, reply)
}

// answered keeps an answer for whoever asks again because it was lost.
func (u *urgents) answered(reply string, answer *wire.Envelope) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m := u.all[reply]; m != nil {
		m.answer = answer
	}
}

func (u *urgents) answer(reply string) *wire.Envelope {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m := u.all[reply]; m != nil {
		return m.answer
	}
	return nil
}

// forget lets a message that could not be used come again.
func (u *urgents) forget(reply string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m := u.all[reply]; m != nil && !m.ordered {
		delete(u.all, reply)
	}
}
