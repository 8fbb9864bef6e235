package actor

import (
	"reflect"
	"sync"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// DeadLetter is a message that no handler ran, returned to its sender.
type DeadLetter struct {
	Reason  *Error // why; it names the target and the endpoint
	Type    string // the Go type of the message
	Message any    // the message itself, when it never left the process; else nil
	From    subjects.ActorID
	At      time.Time
}

// DeadLetterHandler is implemented by actors that handle their dead letters. HandleDeadLetter runs
// on the actor's turn, before its mail; its error fails the actor. Without it, a dead letter is
// logged and has no other effect.
//
// At most 262,144 dead letters wait for an actor's turn, more than can be in flight to one process.
// Any more are only counted, logged and listed by Proc.DeadLetters.
type DeadLetterHandler interface {
	HandleDeadLetter(ctx *Context, r DeadLetter) error
}

// maxQueuedDeadLetters bounds the dead letters that wait for their actor.
const maxQueuedDeadLetters = 1 << 18

// maxDeadLetters bounds the dead letters that a proc remembers: the newest.
const maxDeadLetters = 128

// deadLetters holds the messages that came back to a proc, or could not be delivered or returned.
type deadLetters struct {
	p *Proc

	mu   sync.Mutex // guards the fields below
	ring []DeadLetter
	next int
}

func (l *deadLetters) add(r DeadLetter) {
	r.Message = nil // of unknown size
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ring) < maxDeadLetters {
		l.ring = append(l.ring, r)
		return
	}
	l.ring[l.next] = r
	l.next = (l.next + 1) % maxDeadLetters
}

// DeadLetters returns the newest messages, at most 128 and without their bodies, that came back to
// actors and clients of this proc, oldest first. Stats counts them all.
func (p *Proc) DeadLetters() []DeadLetter {
	l := &p.deadLetters
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(append([]DeadLetter(nil), l.ring[l.next:]...), l.ring[:l.next]...)
}

// bounce returns a message to its sending actor in this proc; nil stands for the client.
func (l *deadLetters) bounce(from *instance, typ string, m any, why *Error) {
	p := l.p
	p.counts.bounced.Add(1)
	r := DeadLetter{Reason: why, Type: typ, Message: m, From: p.senderID(from), At: time.Now()}
	l.add(r)
	p.sampledLog.Warn().Err(why).Str("type", typ).Stringer("from", r.From).Msg("undeliverable message")
	if from == nil {
		return
	}
	if !from.countDeadLetters(1) { // it is a dead letter, and counted
		return
	}
	from.runSoon(func(ctx *Context) {
		from.countDeadLetters(-1)
		u, ok := from.actor.(DeadLetterHandler)
		if !ok {
			return
		}
		if err := u.HandleDeadLetter(ctx, r); err != nil {
			from.fail(ending{code: CodeHandler, reason: "undeliverable message: " + err.Error()})
		}
	})
}

// countDeadLetters reserves places for n dead letters in the actor's queue; false if it is full.
func (in *instance) countDeadLetters(n int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	r := in.ensureExtra()
	if n > 0 && r.queuedDeadLetters >= maxQueuedDeadLetters {
		return false
	}
	r.queuedDeadLetters += n
	return true
}

// reject notifies the sender that no handler will run its message (DEL-2): by an answer if the
// sender waits for one, else by a dead letter. typ is the type of the message, for people.
func (l *deadLetters) reject(q *request, typ string, err error) {
	if !q.awaitsAnswer() {
		l.giveBack(q.Delivery, typ, err)
		return
	}
	l.p.counts.undeliverable.Add(1)
	q.complete(nil, err)
}

// giveBack is reject for a message whose sender does not wait.
func (l *deadLetters) giveBack(d *Delivery, typ string, err error) {
	p := l.p
	p.counts.undeliverable.Add(1)
	switch {
	case !d.From.IsValid():
		p.sampledLog.Warn().Err(err).Msg("undeliverable message")
	case d.From.Proc == p.id:
		l.bounce(p.find(d.From.Name), typeOf(d.value), d.value, asError(err))
	default: // it was accepted, and comes back all the same
		if berr := p.outbox.respond(&replyTo{port: d.From.Port(portBounce)},
			bounceEnvelope(d.Actor, typ, err)); berr != nil {
			p.sampledLog.Warn().Err(err).Stringer("to", d.From).Msg("cannot return an undeliverable message")
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

func asError(err error) *Error {
	e := asErrorValue(err)
	return &e
}
