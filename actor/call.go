package actor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// call is a question that waits for its answer, and the port that the answer comes to.
type call struct {
	to    subjects.ActorID
	key   portKey      // of the port
	at    string       // the port's address
	heard func(Answer) // may be called on any goroutine, any number of times; must not block; nil: somebody waits

	waiting             // of the first answer
	links   *link.Links // expect who waits to send more; nil: they do not
	answer  Answer
	came    encoded       // what the answer holds when it came by the bus
	asked   atomic.Uint64 // see link.Asker; 0: it is not on its way
}

// Asked takes the serial of the question.
func (c *call) Asked(serial uint64) { c.asked.Store(serial) }

// lost reports whether the answer went with a link to a process.
func (c *call) lost(peer subjects.ProcessID, serial uint64) bool {
	asked := c.asked.Load()
	return asked != 0 && asked <= serial && c.to.Proc.Process() == peer
}

// recv takes an answer from the bus: of the process that was asked, and nobody else's word for it.
func (c *call) recv(in Incoming) error {
	switch {
	case in.From.Proc.Lead() != c.to.Proc.Lead():
		return errorf(CodePortGone, c.key.actor, c.key.port, "an answer of %s, which was not asked", in.From)
	case c.heard != nil:
		c.heard(in.Answer())
	case c.state.CompareAndSwap(open, answering):
		if in.Envelope.Kind == wire.Failure {
			c.answer.Err = FromWire(in.Envelope.Body)
		} else {
			c.came = encoded{in.Envelope.Body, in.unknown}
			c.answer.Value = &c.came
		}
		c.links = in.links
		if c.links != nil { // with those who are answered by the same packet
			c.links.Expect()
		}
		c.tell()
	}
	return nil
}

// closed takes the word that nothing comes any more; by then the question may have been handled.
func (c *call) closed(why error) { c.got(Answer{Err: ranError(why)}) }

// told takes the word that the question did not arrive.
func (c *call) told(_ subjects.ProcID, why *Error) { c.got(Answer{Err: why}) }

// got takes an answer on any goroutine.
func (c *call) got(a Answer) {
	switch {
	case c.heard != nil:
		c.heard(a)
	case c.state.CompareAndSwap(open, answering):
		c.answer = a
		c.tell()
	}
}

// ask asks an actor and waits. In the same process the question is a mailbox push; else it is a
// message with a reply port of its own, and it fails at once when the target's proc is found dead.
func ask[M any](ctx context.Context, p *Proc, from string, to subjects.ActorID, endpoint string, m M) Answer {
	if ctx.Err() != nil {
		return Answer{Err: fromContext(ctx, to.String(), endpoint)}
	}
	c := &call{to: to}
	deadline, has := ctx.Deadline()
	if has { // ctx itself wakes who waits
		c.seat = p.seats.take(0)
	} else {
		deadline = time.Now().Add(p.deadline)
		c.seat = p.seats.take(p.at(deadline))
	}
	defer p.seats.leave(c.seat)
	if to.Proc == p.id {
		p.Deliver(Delivery{
			Actor: to.Name, Port: endpoint, From: p.id.Actor(from), Local: true, Value: m,
			Deadline: deadline, Answer: c.got,
		})
		return p.await(ctx, c, endpoint)
	}
	w, err := encode(p, m)
	if err == nil {
		err = p.question(c, from, endpoint, w, deadline, ctx)
	} else {
		err = errorf(CodeInvalid, to.String(), endpoint, "%v", err)
	}
	p.giveBack(w)
	if err != nil && c.state.CompareAndSwap(open, abandoned) { // else somebody answered all the same
		return Answer{Err: err}
	}
	defer p.closePort(c.key, c)
	return p.await(ctx, c, endpoint)
}

// await waits for the answer.
func (p *Proc) await(ctx context.Context, c *call, endpoint string) Answer {
	if in, ok := ctx.Value(senderKey{}).(*instance); ok {
		in.yield()
	}
	ended := c.waiting.await(ctx, ctx.Done())
	if ended == nil {
		if c.links != nil {
			c.links.Come()
		}
		return c.answer
	}
	if c.at != "" {
		p.GiveUp(c.to.Proc, c.at)
	}
	if errors.Is(ended, context.DeadlineExceeded) {
		return Answer{Err: errorf(CodeDeadline, c.to.String(), endpoint, "no answer within the deadline")}
	}
	return Answer{Err: fromContext(ctx, c.to.String(), endpoint)}
}

// GiveUp lets a proc in another process, and those beside it, know that nobody waits any more for the answers
// that go to a port; packages that extend the runtime (cast) call it.
func (p *Proc) GiveUp(to subjects.ProcID, reply string) {
	t, err := p.target(to.Actor(clientName), portInfo) // any port of it: its process is meant
	switch {
	case err == nil:
		p.links.Cancel(t.Peer, reply)
	case errors.Is(err, errNeighbour):
		p.process.asked.cancel(p.self, reply)
	}
}

// question sends the question to another proc, with a reply port, which the caller closes unless there is an
// error. With a context it waits for room there until that ends. The zero deadline is none.
func (p *Proc) question(c *call, from, endpoint string, w written, deadline time.Time, wait context.Context) error {
	if _, err := p.target(c.to, endpoint); err != nil && !errors.Is(err, errNeighbour) { // before its death could be missed
		return err
	}
	p.address(c, from)
	if !p.openPort(c.key, c) { // the answer could not come
		return p.stopped()
	}
	o := &outbound{
		to: c.to, port: endpoint, mark: link.Mark{Call: c}, until: deadline, wait: wait,
		envelope: wire.Envelope{Kind: wire.Message, Sender: from, Reply: c.at, Bytes: w.bytes, Body: w.body},
	}
	if !deadline.IsZero() {
		o.envelope.TTL = max(time.Until(deadline), time.Millisecond) // 0 is no deadline
	}
	if err := p.send(o); err != nil {
		p.closePort(c.key, c)
		return err
	}
	return nil
}

// address gives a call a fresh port: one text holds its name, too.
func (p *Proc) address(c *call, from string) {
	var room [128]byte
	b := append(append(append(append(room[:0], p.name...), '/'), from...), ':')
	name := len(b)
	c.at = string(p.appendFreshPort(b))
	c.key = portKey{from, c.at[name:]}
}

// failCalls ends the calls that match, because their answer is known not to come, and says how many
// there were.
func (p *Proc) failCalls(match func(*call) bool, why func(*call) error) int {
	p.mu.Lock()
	var failed []*call
	for _, pt := range p.ports {
		if c, is := pt.(*call); is && match(c) {
			failed = append(failed, c)
		}
	}
	p.mu.Unlock()
	for _, c := range failed {
		c.got(Answer{Err: why(c)})
	}
	return len(failed)
}

// post sends a message that nobody waits for.
func (p *Proc) post(from string, to subjects.PortID, m any) error {
	if to.Actor.Proc == p.id {
		return p.deliver(&Delivery{
			Actor: to.Actor.Name, Port: to.Port, From: p.id.Actor(from), Local: true, Value: m,
		})
	}
	return postFar(p, from, to.Actor, to.Port, typeOf(m), m, time.Time{}, nil)
}

// postFar is post to another process, of a message whose type is called typ. Its fate is known at the deadline, the
// default one when that is zero. With a context, it waits for room there until that ends.
func postFar[M any](p *Proc, from string, to subjects.ActorID, port, typ string, m M, deadline time.Time, wait context.Context) error {
	w, err := encode(p, m)
	if err != nil {
		p.giveBack(w)
		return errorf(CodeInvalid, to.String(), port, "%v", err)
	}
	err = p.send(&outbound{
		to: to, port: port, envelope: wire.Envelope{Kind: wire.Message, Sender: from, Bytes: w.bytes, Body: w.body, Wait: wait != nil},
		mark: link.Mark{Type: typ}, until: deadline, wait: wait,
	})
	p.giveBack(w)
	return err
}

// written is a message that is encoded.
type written struct {
	body  []byte
	bytes bool    // see wire.Envelope
	room  *[]byte // where it lies, which giveBack keeps for others; nil: the message is bytes, and stays where it is
}

// encode encodes a message. What was borrowed for that is to be given back, also after an error.
func encode[M any](p *Proc, m M) (w written, err error) {
	if raw, is := any(&m).(*[]byte); is && *raw != nil {
		return written{body: *raw, bytes: true}, nil
	}
	if w.room, _ = p.scratch.Get().(*[]byte); w.room == nil {
		w.room = new([]byte)
	}
	w.body, err = encodeAny((*w.room)[:0], m)
	return w, err
}

// largeScratch is the size from which on room is not kept.
const largeScratch = 64 << 10

func (p *Proc) giveBack(w written) {
	if w.room == nil {
		return
	}
	if cap(w.body) <= largeScratch {
		*w.room = w.body
	}
	p.scratch.Put(w.room)
}

//go:noinline
func encodeAny[M any](b []byte, m M) ([]byte, error) { return wire.AppendMarshal(b, m) }

// encoded is an answer as it came from the bus: whoever waits decodes it.
type encoded struct {
	raw     []byte
	unknown *atomic.Uint64
}

// open decodes an answer on the goroutine that waited for it.
func (a Answer) open(result decodeFunc) (any, error) {
	answer, ok := a.Value.(*encoded)
	if !ok || a.Err != nil {
		return a.Value, a.Err
	}
	v, err := result(wire.CBOR, answer.raw, answer.unknown)
	if err != nil {
		return nil, ranError(errorf(CodeBadMessage, "", "", "the answer: %v", err))
	}
	return v, nil
}
