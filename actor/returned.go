package actor

import (
	"reflect"
	"sync"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// Returned is a message that came back: no handler ran it.
type Returned struct {
	Reason  *Error // why; it names the target and the endpoint
	Type    string // the Go type of the message
	Message any    // the message itself, when it never left the process; else nil
	From    subjects.ActorID
	At      time.Time
}

// Undeliverer is implemented by actors that want to know of messages they posted and that came back.
// Undeliverable runs on the actor's turn, before its mail; its error fails the actor. Without it a
// message that comes back is logged, and harms nobody. At most 262,144 wait for an actor's turn, more
// than may be on their way to a process; any more are dead letters.
type Undeliverer interface {
	Undeliverable(ctx *Context, r Returned) error
}

// maxReturned bounds the messages that came back and that their actor has not heard of.
const maxReturned = 1 << 18

// maxDead bounds how many dead letters a proc remembers: the newest.
const maxDead = 128

// deadLetters are the messages that came back to a proc, or that it could not deliver or return.
type deadLetters struct {
	mu   sync.Mutex
	ring []Returned
	next int
}

func (d *deadLetters) add(r Returned) {
	r.Message = nil // nobody knows how large it is
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ring) < maxDead {
		d.ring = append(d.ring, r)
		return
	}
	d.ring[d.next] = r
	d.next = (d.next + 1) % maxDead
}

// DeadLetters are the newest messages, at most 128 and without their bodies, that came back to
// actors and clients of this proc, oldest first. Stats counts them all.
func (p *Proc) DeadLetters() []Returned {
	d := &p.dead
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(append([]Returned(nil), d.ring[d.next:]...), d.ring[:d.next]...)
}

// comeBack gives a message back to the actor of this proc that posted it; nil stands for the client.
func (p *Proc) comeBack(from *instance, typ string, m any, why *Error) {
	p.counts.bounced.Add(1)
	r := Returned{Reason: why, Type: typ, Message: m, From: p.senderID(from), At: time.Now()}
	p.dead.add(r)
	p.loud.Warn().Err(why).Str("type", typ).Stringer("from", r.From).Msg("a message came back")
	if from == nil {
		return
	}
	if !from.mayReturn(1) { // it is a dead letter, and counted
		return
	}
	from.post(func(ctx *Context) {
		from.mayReturn(-1)
		u, ok := from.actor.(Undeliverer)
		if !ok {
			return
		}
		if err := u.Undeliverable(ctx, r); err != nil {
			from.fail(ending{code: CodeHandler, reason: "a message came back: " + err.Error()})
		}
	})
}

// mayReturn counts the messages that came back and that the actor has not heard of; false: they are too
// many.
func (in *instance) mayReturn(n int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	r := in.rarely()
	if n > 0 && r.returned >= maxReturned {
		return false
	}
	r.returned += n
	return true
}

// undeliverable tells the sender of a message that no handler will run it (DEL-2): as the answer
// when it waits for one, else as a message that comes back.
func (p *Proc) undeliverable(d *Delivery, err error) {
	p.counts.undeliverable.Add(1)
	switch {
	case d.waits():
		d.settle(nil, err)
	case !d.From.IsValid():
		p.loud.Warn().Err(err).Msg("undeliverable")
	case d.From.Proc == p.id:
		p.comeBack(p.find(d.From.Name), typeOf(d.Value), d.Value, plainError(err))
	default: // it was accepted, and comes back all the same
		if berr := p.respond(replyPort{port: d.From.Port(portBack)}, bounce(d.Actor, d.typ, err)); berr != nil {
			p.loud.Warn().Err(err).Stringer("to", d.From).Msg("a message could not be given back")
		}
	}
}

func typeName[T any]() string { return reflect.TypeFor[T]().String() }

func typeOf(v any) string {
	if v == nil {
		return ""
	}
	return reflect.TypeOf(v).String()
}

func plainError(err error) *Error {
	e := plain(err)
	return &e
}
