package actor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// minUrgentRepeat is the first delay before an unanswered urgent message, or an unacknowledged
// supervision message, is repeated on the control connection. It doubles each time up to
// maxUrgentRepeat.
const (
	minUrgentRepeat = time.Second
	maxUrgentRepeat = 4 * time.Second
)

// Urgent lets an endpoint's messages also come by the control connection (CallUrgent). The handler
// may see one several times, and before earlier messages of its sender (Context.OnControl).
func (m Method[A]) Urgent() Method[A] {
	if m.m != nil {
		m.m.urgent = true
	}
	return m
}

// OnControl reports whether the message came by the control connection. It may have overtaken
// earlier messages of its sender, and comes again, in order. An error is then not sent to the
// caller; the ordered copy gets the answer.
func (c *Context) OnControl() bool {
	return c.delivery != nil && c.delivery.onControl
}

// CallUrgent is Call for a message that must not wait for data (ACT-12). To another process the
// message also goes by the control connection, repeatedly until it is answered. The first answer
// counts, except errors on the control connection.
func (e Endpoint[A, M, R]) CallUrgent(ctx context.Context, to Ref[A], m M) (R, error) {
	p, from, err := prepare(ctx, e.endpointSpec, &to.actorRef)
	if err != nil {
		var none R
		return none, err
	}
	if p.process.has(to.id.Proc) {
		return e.Call(ctx, to, m)
	}
	if p.options.Tracer == nil {
		return DecodeAnswer[R](p.outbox.callUrgent(ctx, from, to.id, e.name, m))
	}
	traced, span := p.startSpan(ctx, OpAsk, to.id, e.name)
	v, err := DecodeAnswer[R](p.outbox.callUrgent(traced, from, to.id, e.name, m))
	endSpan(span, err)
	return v, err
}

// callUrgent sends on both connections, and waits.
func (ob *outbox) callUrgent(ctx context.Context, from string, to subjects.ActorID, endpoint string,
	m any) Answer {
	p := ob.p
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return Answer{Err: fromContext(ctx, to.String(), endpoint)}
	}
	body, err := wire.AppendMarshal(nil, m)
	if err != nil {
		return Answer{Err: errorf(CodeInvalid, to.String(), endpoint, "%v", err)}
	}
	c := &call{to: to, answerWait: answerWait{waiter: p.waiters.get(0)}}
	defer p.waiters.put(c.waiter)
	u, err := newUrgentCall(p, c, from, endpoint, body)
	if err != nil {
		return Answer{Err: err}
	}
	defer p.ports.remove(c.key, c)
	u.envelope.Ext = originOf(ctx).ext()
	u.until, _ = ctx.Deadline()
	if err := u.send(true); err != nil && c.state.CompareAndSwap(waitOpen, waitAbandoned) {
		return Answer{Err: err}
	}
	defer u.stop()
	return c.await(ctx, p, endpoint)
}

// urgentSend is a message sent in the order of data and repeatedly on the control connection. Its
// owner ends it; a supervision message (ACT-8) also ends once its ordered copy has arrived,
// and uses the control connection only after minUrgentRepeat.
type urgentSend struct {
	p           *Proc
	to          *link.Target
	envelope    wire.Envelope // its sender is named within the process
	mark        any           // link.Mark.Call
	until       time.Time     // its deadline; zero: it has none
	supervision bool          // a message about a monitor or link (ACT-8)
	ended       func(error)   // called on an end other than by the owner: nil means arrival

	stopped atomic.Bool
	arrived *link.Barrier // of its data copy; nil: not queued yet
	pause   time.Duration
	timer   *time.Timer // runs repeat, one at a time
}

// newUrgentSend prepares a message without sending it.
func newUrgentSend(p *Proc, to *link.Target, e wire.Envelope, mark any, ended func(error)) *urgentSend {
	u := &urgentSend{p: p, to: to, envelope: e, mark: mark, ended: ended, pause: minUrgentRepeat}
	u.envelope.Sender = p.id.Actor(e.Sender).LocalName()
	u.timer = time.AfterFunc(time.Hour, u.repeat)
	u.timer.Stop()
	return u
}

// newUrgentCall is newUrgentSend for a request. It opens the reply port; the caller closes it
// unless newUrgentCall fails.
func newUrgentCall(p *Proc, c *call, from, endpoint string, body []byte) (*urgentSend, error) {
	t, err := p.outbox.target(c.to, endpoint)
	if err != nil {
		return nil, err
	}
	c.assignReplyPort(p, from)
	if !p.ports.add(c.key, c) { // the answer could not come
		return nil, p.stopped()
	}
	e := wire.Envelope{Kind: wire.Message, Sender: from, Reply: c.replyAddr, Body: body}
	return newUrgentSend(p, t.Target, e, c, func(err error) {
		if err != nil {
			c.setAnswer(Answer{Err: err})
		}
	}), nil
}

// send sends the message on the control connection, if it is urgent by now, and queues it among the
// data once there is room.
func (u *urgentSend) send(urgent bool) error {
	if u.stopped.Load() {
		return nil
	}
	if u.supervision && u.arrived.Reached() {
		u.ended(nil)
		return nil
	}
	e := u.envelope
	e.Actor = u.to.Actor
	e.Port = u.to.Port
	until := link.Never
	if !u.until.IsZero() {
		e.TTL = max(time.Until(u.until), time.Millisecond) // 0 is no deadline
		until = u.p.links.At(u.until)
	}
	if urgent {
		u.p.links.SendUrgent(u.to.Peer, &e)
	}
	if err := u.queueInOrder(&e, until); err != nil && !errors.Is(err, ErrBacklog) {
		return err
	}
	pause := u.pause
	u.pause = min(2*pause, maxUrgentRepeat)
	u.timer.Reset(pause)
	return nil
}

// queueInOrder puts the message among the data, unless it is there.
func (u *urgentSend) queueInOrder(e *wire.Envelope, until link.Instant) error {
	if u.arrived != nil {
		return nil
	}
	arrived := link.NewBarrier()
	to := u.to.Peer.ActorByLocalName(u.to.Actor)
	err := u.p.links.SendTracked(u.to, e, link.Mark{Call: u.mark}, until, arrived)
	if errors.Is(err, link.ErrEvicted) {
		u.to = u.p.links.UnnamedTarget(to.Port(u.to.Port))
		err = u.p.links.SendTracked(u.to, e, link.Mark{Call: u.mark}, until, arrived)
	}
	if err != nil {
		return u.p.outbox.sendError(to.Proc, to.String(), u.to.Port, err)
	}
	u.arrived = arrived
	return nil
}

func (u *urgentSend) repeat() {
	if err := u.send(true); err != nil {
		u.ended(err)
	}
}

func (u *urgentSend) stop() {
	u.stopped.Store(true)
	u.timer.Stop()
}

// Urgent takes a message or an answer from the control connection, on its pump. A message it cannot
// use comes again in order, and is refused then.
func (l linkHandler) Urgent(from *link.Peer, by subjects.Sender, e *wire.Envelope) {
	p, name := l.process.find(e.Actor)
	if p == nil {
		return
	}
	sender := from.ActorByLocalName(e.Sender)
	switch e.Kind {
	case wire.Message:
		p.inbox.receiveUrgent(sender, from, by, name, e)
		return
	case wire.Failure:
		p.monitors.receiveEnd(sender, from, name, e)
		return
	}
	c, is := p.ports.find(name, e.Port).(*call)
	if !is {
		p.counts.lateAnswers.Add(1)
	} else if err := c.recv(Incoming{From: sender, Envelope: *e, unknown: &p.counts.unknown}); err != nil {
		p.counts.malformed.Add(1)
	}
}

// receiveUrgent delivers a message from the control connection.
func (b *inbox) receiveUrgent(
	from subjects.ActorID, peer *link.Peer, by subjects.Sender, actor string, e *wire.Envelope,
) {
	p := b.p
	if e.Port == portLink || e.Port == portDemonitor {
		q := newRequest()
		q.Actor = actor
		q.Port = e.Port
		q.From = from
		q.Sender = by
		q.Raw = e.Body
		if err := p.inbox.serveSystem(q); err != nil {
			p.counts.malformed.Add(1)
		}
		return
	}
	home, err := subjects.ParsePortID(e.Reply)
	if err != nil || home.Actor.Proc.Lead() != peer.Lead() {
		p.counts.malformed.Add(1)
		return
	}
	in := p.find(actor)
	if e.Port == portDown {
		p.monitors.answerEarly(in, home, peer)
		return
	}
	if in == nil || in.def.methods[e.Port] == nil || !in.def.methods[e.Port].urgent {
		return
	}
	if again := p.process.urgents.answer(e.Reply); again != nil {
		p.links.SendUrgent(peer, again)
		return
	}
	q := newRequest()
	q.Actor = actor
	q.Port = e.Port
	q.From = from
	q.Sender = by
	q.Raw = e.Body
	q.Reply = e.Reply
	q.Trace = e.CopyTrace()
	q.onControl = true
	if e.TTL > 0 {
		q.Deadline = time.Now().Add(e.TTL)
	}
	q.Answer = func(_ int, a Answer) {
		body, err := wire.AppendMarshal(nil, a.Value)
		if a.Err != nil || err != nil {
			p.process.urgents.forget(e.Reply)
			return
		}
		answer := controlAnswer(home, p.id.Actor(actor), body)
		p.process.urgents.answered(e.Reply, answer)
		p.links.SendUrgent(peer, answer)
	}
	if _, err := p.inbox.deliver(q.Delivery, q); err != nil { // see Urgent
		p.process.urgents.forget(e.Reply)
	}
}

// urgentTable holds the newest urgent messages, by reply port. Each is taken at most once from the
// control connection, and not after its ordered copy.
type urgentTable struct {
	mu    sync.Mutex
	all   map[string]*urgentEntry
	order []string // oldest first; some may be forgotten

	records []string // the newest in the audit, oldest first
}

type urgentEntry struct {
	ordered bool           // it was taken in its order
	answer  *wire.Envelope // to the other
}

const maxUrgents = 256

// accept reports whether a message is to be handled, and notes it.
func (u *urgentTable) accept(q *request) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.all[q.Reply]
	switch {
	case known == nil:
		u.add(q.Reply, &urgentEntry{ordered: !q.onControl})
	case q.onControl:
		return false
	default:
		known.ordered = true
	}
	if q.replyTo != nil {
		q.replyTo.storeAnswer = true
	}
	return true
}

// audit reports whether a record is not in the audit yet, and notes it.
func (u *urgentTable) audit(record string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if slices.Contains(u.records, record) {
		return false
	}
	if len(u.records) == maxUrgents {
		u.records = slices.Delete(u.records, 0, 1)
	}
	u.records = append(u.records, record)
	return true
}

// maxStoredAnswer is the largest answer on the control connection, in bytes (LINK-19).
const maxStoredAnswer = 64 << 10

// storeAnswer stores the answer to an ordered message, for repeats of the message on the control
// connection.
func (q *request) storeAnswer(body []byte) {
	p := q.replyTo.p
	if len(body) < maxStoredAnswer {
		p.process.urgents.answered(q.Reply, controlAnswer(q.replyTo.port, p.id.Actor(q.Actor), body))
	}
}

// controlAnswer returns an actor's answer for the control connection.
func controlAnswer(home subjects.PortID, actor subjects.ActorID, body []byte) *wire.Envelope {
	return &wire.Envelope{
		Kind: wire.Value, Actor: home.Actor.LocalName(), Port: home.Port, Sender: actor.LocalName(), Body: body,
	}
}

// add notes a message in the place of the oldest. The lock is held.
func (u *urgentTable) add(reply string, m *urgentEntry) {
	if u.all == nil {
		u.all = map[string]*urgentEntry{}
	}
	if len(u.order) == maxUrgents {
		delete(u.all, u.order[0])
		u.order = append(u.order[:0], u.order[1:]...)
	}
	u.all[reply] = m
	u.order = append(u.order, reply)
}

// answered stores an answer for a caller that repeats its request.
func (u *urgentTable) answered(reply string, answer *wire.Envelope) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m := u.all[reply]; m != nil {
		m.answer = answer
	}
}

func (u *urgentTable) answer(reply string) *wire.Envelope {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m := u.all[reply]; m != nil {
		return m.answer
	}
	return nil
}

// forget removes an unusable message, so that it may come again.
func (u *urgentTable) forget(reply string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m := u.all[reply]; m != nil && !m.ordered {
		delete(u.all, reply)
	}
}
