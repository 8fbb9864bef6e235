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

// call is a question that waits for its answer.
type call struct {
	to  subjects.ActorID
	got func(Answer) // may be called on any goroutine, any number of times; must not block
}

// call asks an actor and waits. In the same process the question is a mailbox push; else it is a
// message with a reply port of its own, and it fails at once when the target's proc is found dead.
func (p *Proc) call(ctx context.Context, from string, to subjects.ActorID, endpoint string, arg any) Answer {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return Answer{Err: fromContext(ctx, to.String(), endpoint)}
	}
	deadline, _ := ctx.Deadline()
	answers := make(chan Answer, 1) // the first counts
	giveUp := func() {}
	c := &call{to: to, got: func(a Answer) {
		select {
		case answers <- a:
		default:
		}
	}}
	if to.Proc == p.id {
		p.Deliver(Delivery{
			Actor: to.Name, Port: endpoint, From: p.id.Actor(from), Local: true, Value: arg,
			Deadline: deadline, Answer: c.got,
		})
	} else {
		at, done, err := p.ask(ctx, true, c, from, endpoint, arg, deadline)
		if err != nil {
			return Answer{Err: err}
		}
		defer done()
		giveUp = func() { p.giveUp(c, at) }
	}
	if in, ok := ctx.Value(senderKey{}).(*instance); ok {
		in.yield()
	}
	select {
	case a := <-answers:
		return a
	case <-ctx.Done():
	}
	select {
	case a := <-answers: // both came at the same time
		return a
	default:
		giveUp()
		return Answer{Err: fromContext(ctx, to.String(), endpoint)}
	}
}

// giveUp lets the callee know that nobody waits any more, when it is in another process.
func (p *Proc) giveUp(c *call, at string) {
	t, err := p.target(c.to, portInfo) // any port of it: its process is meant
	switch {
	case err == nil:
		p.links.Cancel(t.Peer, at)
	case errors.Is(err, errNeighbour):
		p.process.asked.cancel(p.self, at)
	}
}

// GiveUp lets a proc in another process, and those beside it, know that nobody waits any more for the answers
// that go to a port; packages that extend the runtime (cast) call it.
func (p *Proc) GiveUp(to subjects.ProcID, reply string) {
	p.giveUp(&call{to: to.Actor(clientName)}, reply)
}

// told takes the word that the question did not arrive.
func (c *call) told(_ subjects.ProcID, why *Error) { c.got(Answer{Err: why}) }

// ask sends the question to another proc, and with wait waits for room there until ctx ends. done ends its
// reply port, whose address is at. The zero deadline is none.
func (p *Proc) ask(ctx context.Context, wait bool, c *call, from, endpoint string, arg any, deadline time.Time) (at string, done func(), err error) {
	body, err := wire.AppendMarshal(nil, arg)
	if err != nil {
		return "", nil, errorf(CodeInvalid, c.to.String(), endpoint, "%v", err)
	}
	if _, err := p.target(c.to, endpoint); err != nil && !errors.Is(err, errNeighbour) { // before its death could be missed
		return "", nil, err
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.calls[c] = struct{}{}
	}
	p.mu.Unlock()
	if closed { // the answer could not come
		return "", nil, p.stopped()
	}
	reply := p.OpenPrivate(from, func(in Incoming) { c.got(in.Answer()) },
		func(err error) { c.got(Answer{Err: ranError(err)}) }) // by then it may have been handled
	done = func() {
		reply.Close()
		p.mu.Lock()
		delete(p.calls, c)
		p.mu.Unlock()
	}
	at = reply.ID().String()
	o := &outbound{
		to: c.to, port: endpoint, envelope: wire.Envelope{Kind: wire.Message, Sender: from, Reply: at, Body: body},
		mark: link.Mark{Call: c}, until: deadline,
	}
	if wait {
		o.wait = ctx
	}
	if !deadline.IsZero() {
		o.envelope.TTL = max(time.Until(deadline), time.Millisecond) // 0 is no deadline
	}
	if err := p.send(o); err != nil {
		done()
		return "", nil, err
	}
	return at, done, nil
}

// failCalls ends the calls that match, because their answer is known not to come, and says how many
// there were.
func (p *Proc) failCalls(match func(*call) bool, err error) int {
	p.mu.Lock()
	var failed []*call
	for c := range p.calls {
		if match(c) {
			failed = append(failed, c)
		}
	}
	p.mu.Unlock()
	for _, c := range failed {
		c.got(Answer{Err: err})
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
	return postFar(p, from, to.Actor, to.Port, m, time.Time{}, nil)
}

// postFar is post to another process. Its fate is known at the deadline, the default one when that is
// zero. With a context, it waits for room there until that ends.
func postFar[M any](p *Proc, from string, to subjects.ActorID, port string, m M, deadline time.Time, wait context.Context) error {
	room, _ := p.scratch.Get().(*[]byte)
	if room == nil {
		room = new([]byte)
	}
	lead, body, err := encode((*room)[:0], m)
	if err != nil {
		return errorf(CodeInvalid, to.String(), port, "%v", err)
	}
	err = p.send(&outbound{
		to: to, port: port, envelope: wire.Envelope{Kind: wire.Message, Sender: from, Lead: lead, Body: body, Wait: wait != nil},
		mark: link.Mark{Type: typeName[M]()}, until: deadline, wait: wait,
	})
	if cap(lead) <= largeScratch {
		*room = lead
	}
	p.scratch.Put(room)
	return err
}

// largeScratch is the size from which on a buffer is not kept.
const largeScratch = 64 << 10

// encode encodes a message into b. What is bytes already stays where it is: it is the body, and lead
// comes before it.
func encode[M any](b []byte, m M) (lead, body []byte, err error) {
	if raw, is := any(&m).(*[]byte); is && *raw != nil {
		return wire.AppendBytesHead(b, len(*raw)), *raw, nil
	}
	lead, err = encodeAny(b, m)
	return lead, nil, err
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
	answer, ok := a.Value.(encoded)
	if !ok || a.Err != nil {
		return a.Value, a.Err
	}
	v, err := result(wire.CBOR, answer.raw, answer.unknown)
	if err != nil {
		return nil, ranError(errorf(CodeBadMessage, "", "", "the answer: %v", err))
	}
	return v, nil
}
