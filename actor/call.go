package actor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// call is a question that waits for its answer.
type call struct {
	to      subjects.ActorID
	n       atomic.Uint64 // its number in this proc's sequence, once it is sent
	answers chan Answer   // holds one: the first answer counts
}

// answer may be called on any goroutine, any number of times.
func (c *call) answer(a Answer) {
	select {
	case c.answers <- a:
	default:
	}
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
	c := &call{to: to, answers: make(chan Answer, 1)}
	if to.Proc == p.id {
		p.Deliver(Delivery{
			Actor: to.Name, Port: endpoint, From: p.id.Actor(from), Local: true, Value: arg,
			Deadline: deadline, Answer: c.answer,
		})
	} else {
		done, err := p.ask(c, from, endpoint, arg, deadline)
		if err != nil {
			return Answer{Err: err}
		}
		defer done()
	}
	select {
	case a := <-c.answers:
		return a
	case <-ctx.Done():
	}
	select {
	case a := <-c.answers: // both came at the same time
		return a
	default:
		return Answer{Err: fromContext(ctx, to.String(), endpoint)}
	}
}

// ask sends the question to another process. done ends its reply port.
func (p *Proc) ask(c *call, from, endpoint string, arg any, deadline time.Time) (done func(), err error) {
	body, err := wire.Marshal(arg)
	if err != nil {
		return nil, errorf(CodeInvalid, c.to.String(), endpoint, "%v", err)
	}
	if err := p.Follow(c.to.Proc.Mesh); err != nil {
		return nil, err
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.calls[c] = struct{}{}
	}
	p.mu.Unlock()
	if closed { // the answer could not come
		return nil, p.stopped()
	}
	reply := p.OpenPrivate(from, func(in Incoming) { c.answer(in.Answer()) },
		func(err error) { c.answer(Answer{Err: ranError(err)}) }) // by then it may have been handled
	done = func() {
		reply.Close()
		p.mu.Lock()
		delete(p.calls, c)
		p.mu.Unlock()
	}
	err = p.send(c.to.Port(endpoint), wire.Frame{
		Kind: wire.Message, TTL: max(time.Until(deadline), time.Millisecond), // 0 is no deadline
		Sender: from, Reply: reply.ID().String(), Body: body,
	}, c.n.Store)
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
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
		c.answer(Answer{Err: err})
	}
	return len(failed)
}

// post sends a message that nobody waits for.
func (p *Proc) post(from string, to subjects.PortID, m any) error {
	if to.Actor.Proc == p.id {
		return p.deliver(Delivery{
			Actor: to.Actor.Name, Port: to.Port, From: p.id.Actor(from), Local: true, Value: m,
		})
	}
	body, err := wire.Marshal(m)
	if err != nil {
		return errorf(CodeInvalid, to.Actor.String(), to.Port, "%v", err)
	}
	return p.Send(to, wire.Frame{Kind: wire.Message, Sender: from, Body: body})
}

// encoded is an answer as it came from the bus: whoever waits decodes it.
type encoded []byte

// open decodes an answer on the goroutine that waited for it.
func (a Answer) open(result decodeFunc) (any, error) {
	raw, ok := a.Value.(encoded)
	if !ok || a.Err != nil {
		return a.Value, a.Err
	}
	v, err := result(wire.CBOR, raw)
	if err != nil {
		return nil, ranError(errorf(CodeBadMessage, "", "", "the answer: %v", err))
	}
	return v, nil
}
