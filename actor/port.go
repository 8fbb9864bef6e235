package actor

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// portSize is the size of a port: how many messages wait in it before senders are refused.
const portSize = 1024

// Incoming is a message at a raw port.
type Incoming struct {
	From     subjects.ActorID
	Envelope wire.Envelope
	Local    bool
	Value    any // valid when Local: the message itself

	unknown   *atomic.Uint64 // counts bodies with unknown fields
	links     *link.Links    // the message's links; nil: none
	onControl bool           // it came by the control connection
	credited  bool           // of SendWait in another process: it enters even a full port
}

// portKey names a port within a proc.
type portKey struct{ actor, port string }

// port is an open port.
type port interface {
	recv(Incoming) error // an error refuses the message
	closed(error)        // its actor or the proc has ended
}

// funcPort is a port made of functions.
type funcPort struct {
	onMessage func(Incoming) error
	onClose   func(error)                       // may be nil
	room      func(credit bool) <-chan struct{} // see instance.roomSignal; nil: there is always room
}

func (l *funcPort) recv(in Incoming) error { return l.onMessage(in) }

func (l *funcPort) closed(why error) {
	if l.onClose != nil {
		l.onClose(why)
	}
}

// RawPort is a port that passes frames to a function, for packages that extend the runtime.
type RawPort struct {
	p   *Proc
	key portKey
	pt  port
}

// OpenRaw opens a port of the named actor; the actor need not exist. recv runs on a pump or on a
// local sender's goroutine and must not block. An open port of the same name is replaced.
func OpenRaw(p *Proc, actor, name string, recv func(Incoming)) RawPort {
	return p.ports.openAt(actor, name, raw(recv, nil))
}

// OpenPrivate opens a raw port under a fresh name. If its actor or the proc ends before it is
// closed, closed receives the reason.
func OpenPrivate(p *Proc, actor string, recv func(Incoming), closed func(error)) RawPort {
	return p.ports.openAt(actor, p.ports.freshName(), raw(recv, closed))
}

func raw(recv func(Incoming), closed func(error)) port {
	return &funcPort{onClose: closed, onMessage: func(in Incoming) error {
		recv(in)
		return nil
	}}
}

// ID is the port's address.
func (r RawPort) ID() subjects.PortID { return r.p.id.Actor(r.key.actor).Port(r.key.port) }

// Close ends the port; its later messages are counted and dropped. A port that replaced it stays.
func (r RawPort) Close() { r.p.ports.remove(r.key, r.pt) }

// goneError is the error of a closed port, for senders and receivers.
func (r RawPort) goneError(format string, args ...any) *Error {
	return errorf(CodePortGone, r.ID().Actor.String(), r.key.port, format, args...)
}

// updateRefused is the error for the sender of a refused update.
func updateRefused(why error) *Error {
	err := errorf(CodeBadMessage, "", "", "the update was refused: %v", why)
	err.cause = why
	return err
}

// Port receives the messages to its Ref, in order per sender.
type Port[T any] struct {
	raw     RawPort
	size    int
	arrived chan struct{} // holds one when there may be messages
	ended   chan struct{} // closed once err is set

	mu       sync.Mutex // guards the fields below
	queue    []portMessage[T]
	first    int    // the oldest message of queue
	credited int    // messages of SendWait in other processes, which do not count for size
	taken    uint64 // messages received so far
	waits    []portWait
	err      error // of the end
}

type portMessage[T any] struct {
	v        T
	credited bool
}

// portWait is a wait until a number of messages is received, or the port ends.
type portWait struct {
	until uint64
	done  chan struct{}
}

// PortOwner is the owner of ports: a *Context (the port ends with the actor) or a *Proc (for code
// that is not an actor).
type PortOwner interface {
	portOwner() (p *Proc, owner string)
}

func (c *Context) portOwner() (*Proc, string) { return c.in.proc, c.in.name }
func (p *Proc) portOwner() (*Proc, string)    { return p, clientName }

// OpenPort opens a streaming port for 1,024 messages. Close it.
func OpenPort[T any](at PortOwner) *Port[T] { return OpenPortSize[T](at, portSize) }

// OpenPortSize is OpenPort for another number of messages, at least one. A full port refuses
// messages of Send: a sender in its proc gets ErrMailboxFull, and others get a dead letter each.
func OpenPortSize[T any](at PortOwner, size int) *Port[T] {
	mustHold(size > 0, "OpenPortSize", fmt.Sprintf("a size of 1 or more, got %d", size))
	t := newPort[T](size)
	t.raw = openWith(at, &funcPort{onClose: t.closeWith, room: t.room}, t.recv)
	return t
}

// newPort creates an unopened port for size messages.
func newPort[T any](size int) *Port[T] {
	return &Port[T]{size: size, arrived: make(chan struct{}, 1), ended: make(chan struct{})}
}

// openPrivate opens a port under a fresh name. recv has the port as an argument, because a message
// may come before openAt has returned.
func openPrivate(at PortOwner, recv func(RawPort, Incoming) error, closed func(error)) RawPort {
	return openWith(at, &funcPort{onClose: closed}, recv)
}

func openWith(at PortOwner, l *funcPort, recv func(RawPort, Incoming) error) RawPort {
	p, owner := at.portOwner()
	raw := RawPort{p, portKey{owner, p.ports.freshName()}, l}
	l.onMessage = func(in Incoming) error { return recv(raw, in) }
	return p.ports.openAt(owner, raw.key.port, l)
}

// decodeIncoming decodes a message at a port as a T.
func decodeIncoming[T any](at RawPort, in Incoming) (T, error) {
	var zero T
	v, ok := as[T](in.Value)
	switch {
	case in.Local && !ok:
		return zero, errorf(CodeBadMessage, at.ID().Actor.String(), at.key.port, "the port takes %s, got %T",
			reflect.TypeFor[T](), in.Value)
	case in.Envelope.Kind != wire.Message:
		return zero, errorf(CodeBadMessage, at.ID().Actor.String(), at.key.port,
			"the port takes messages, got an answer")
	case !in.Local:
		if err := wire.UnmarshalCounting(in.Envelope.Body, &v, in.unknown); err != nil {
			return zero, errorf(CodeBadMessage, at.ID().Actor.String(), at.key.port, "%v", err)
		}
	}
	return v, nil
}

func (t *Port[T]) closeWith(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	t.err = err
	close(t.ended)
	for _, w := range t.waits {
		close(w.done)
	}
	t.waits = nil
}

func (t *Port[T]) recv(at RawPort, in Incoming) error {
	v, err := decodeIncoming[T](at, in)
	if err != nil {
		return err
	}
	if !t.put(v, in.credited) {
		return errorf(CodeMailboxFull, at.ID().Actor.String(), at.key.port,
			"the port holds %d messages already", t.size)
	}
	return nil
}

// put adds a message; false if the port is full.
func (t *Port[T]) put(v T, credited bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.queue) - t.first
	if credited {
		t.credited++
	} else if n-t.credited >= t.size {
		return false
	}
	if len(t.queue) == cap(t.queue) && t.first > n { // reuse the room of received messages
		copy(t.queue, t.queue[t.first:])
		clear(t.queue[n:])
		t.queue = t.queue[:n]
		t.first = 0
	}
	t.queue = append(t.queue, portMessage[T]{v, credited})
	t.signal()
	return true
}

// signal wakes a receiver.
func (t *Port[T]) signal() {
	select {
	case t.arrived <- struct{}{}:
	default:
	}
}

// take removes the oldest message; false if there is none.
func (t *Port[T]) take() (v T, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == len(t.queue) {
		return v, false
	}
	m := t.queue[t.first]
	t.queue[t.first] = portMessage[T]{}
	t.first++
	if m.credited {
		t.credited--
	}
	if t.first < len(t.queue) {
		t.signal() // another receiver may wait
	} else {
		t.queue = t.queue[:0]
		t.first = 0
		if cap(t.queue) > portSize {
			t.queue = nil
		}
	}
	t.taken++
	t.waits = slices.DeleteFunc(t.waits, func(w portWait) bool {
		if t.taken < w.until {
			return false
		}
		close(w.done)
		return true
	})
	return m.v, true
}

// room is instance.roomSignal for a port.
func (t *Port[T]) room(credit bool) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.queue) - t.first
	until := t.taken + 1
	if credit {
		until = t.taken + uint64(n)
	}
	if t.err != nil || n == 0 || !credit && n-t.credited < t.size {
		return nil
	}
	for _, w := range t.waits {
		if w.until == until {
			return w.done
		}
	}
	done := make(chan struct{})
	t.waits = append(t.waits, portWait{until, done})
	return done
}

// Ref is the port's address, to be sent to others.
func (t *Port[T]) Ref() PortRef[T] { return PortRef[T]{portRef{id: t.raw.ID(), via: t.raw.p}} }

// Recv waits for the next message, until ctx, the port or its actor ends. Messages from before the
// end are still received.
func (t *Port[T]) Recv(ctx context.Context) (T, error) {
	var end error
	for {
		if v, ok := t.take(); ok {
			return v, nil
		}
		if end != nil {
			var zero T
			return zero, fmt.Errorf("receive: %w", end)
		}
		select {
		case <-t.arrived:
		case <-t.ended:
			end = t.err
		case <-ctx.Done():
			end = context.Cause(ctx)
			select {
			case <-t.ended:
				end = t.err
			default:
			}
		}
	}
}

// Close ends the port; later senders get ErrPortGone.
func (t *Port[T]) Close() {
	t.raw.Close()
	t.closeWith(errorf(CodeStopped, t.raw.ID().Actor.String(), t.raw.key.port, "the port is closed"))
}
