package actor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// call is a question that waits for its answer.
type call struct {
	to  subjects.ActorID
	n   atomic.Uint64 // its number in this proc's sequence, once it is sent
	got func(Answer)  // may be called on any goroutine, any number of times; must not block
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
		_, done, err := p.ask(c, from, endpoint, arg, deadline)
		if err != nil {
			return Answer{Err: err}
		}
		defer done()
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
		return Answer{Err: fromContext(ctx, to.String(), endpoint)}
	}
}

// ask sends the question to another process. done ends its reply port, whose address is at. The zero
// deadline is none.
func (p *Proc) ask(c *call, from, endpoint string, arg any, deadline time.Time) (at string, done func(), err error) {
	body, err := wire.Marshal(arg)
	if err != nil {
		return "", nil, errorf(CodeInvalid, c.to.String(), endpoint, "%v", err)
	}
	if err := p.Follow(c.to.Proc.Mesh); err != nil {
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
	f := wire.Frame{Kind: wire.Message, Sender: from, Reply: at, Body: body}
	if !deadline.IsZero() {
		f.TTL = max(time.Until(deadline), time.Millisecond) // 0 is no deadline
	}
	if err := p.send(c.to.Port(endpoint), f, c.n.Store); err != nil {
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
	return p.postFar(from, to, m)
}

// postFar is post to another process.
func (p *Proc) postFar(from string, to subjects.PortID, m any) error {
	body, err := wire.Marshal(m)
	if err != nil {
		return errorf(CodeInvalid, to.Actor.String(), to.Port, "%v", err)
	}
	return p.send(to, wire.Frame{Kind: wire.Message, Sender: from, Body: body}, func(n uint64) {
		p.posts.add(n, posted{from, typeOf(m)})
	})
}

// maxPosts bounds how many posted messages a proc knows the sender of: the newest.
const maxPosts = 4096

// posted is a message that was sent to another process.
type posted struct{ from, typ string }

// posts are the newest messages posted to other processes, by their number: when nobody listened,
// the server names no more than that.
type posts struct {
	mu   sync.Mutex
	ring [maxPosts]struct {
		n uint64
		posted
	}
}

func (ps *posts) add(n uint64, p posted) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	at := &ps.ring[n%maxPosts]
	at.n, at.posted = n, p
}

// take returns what is known of a message; the zero posted when that is nothing.
func (ps *posts) take(n uint64) posted {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if at := ps.ring[n%maxPosts]; at.n == n {
		return at.posted
	}
	return posted{}
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
