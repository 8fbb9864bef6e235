package actor

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// portSize limits the messages that wait in a port before senders are refused.
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
	onClose   func(error) // may be nil
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
	raw   RawPort
	queue chan T
	once  sync.Once
	ended chan struct{} // closed once err is set
	err   error
}

// PortOwner is the owner of ports: a *Context (the port ends with the actor) or a *Proc (for code
// that is not an actor).
type PortOwner interface {
	portOwner() (p *Proc, owner string)
}

func (c *Context) portOwner() (*Proc, string) { return c.in.proc, c.in.name }
func (p *Proc) portOwner() (*Proc, string)    { return p, clientName }

// OpenPort opens a streaming port. It holds 1,024 messages; a full port refuses more. Close it.
func OpenPort[T any](at PortOwner) *Port[T] {
	t := newPort[T](portSize)
	t.raw = openPrivate(at, t.recv, t.closeWith)
	return t
}

// newPort creates an unopened port for size messages.
func newPort[T any](size int) *Port[T] {
	return &Port[T]{queue: make(chan T, size), ended: make(chan struct{})}
}

// openPrivate opens a port under a fresh name. recv has the port as an argument, because a message
// may come before openAt has returned.
func openPrivate(at PortOwner, recv func(RawPort, Incoming) error, closed func(error)) RawPort {
	p, owner := at.portOwner()
	l := &funcPort{onClose: closed}
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
	t.once.Do(func() {
		t.err = err
		close(t.ended)
	})
}

func (t *Port[T]) recv(at RawPort, in Incoming) error {
	v, err := decodeIncoming[T](at, in)
	if err != nil {
		return err
	}
	select {
	case t.queue <- v:
		return nil
	default:
		return errorf(CodeMailboxFull, at.ID().Actor.String(), at.key.port,
			"the port holds %d messages already", portSize)
	}
}

// Ref is the port's address, to be sent to others.
func (t *Port[T]) Ref() PortRef[T] { return PortRef[T]{portRef{id: t.raw.ID(), via: t.raw.p}} }

// Recv waits for the next message, until ctx, the port or its actor ends. Messages from before the
// end are still received.
func (t *Port[T]) Recv(ctx context.Context) (T, error) {
	var zero T
	select {
	case v := <-t.queue:
		return v, nil
	case <-t.ended:
	case <-ctx.Done():
	}
	select {
	case v := <-t.queue: // it came at the same time
		return v, nil
	default:
	}
	select {
	case <-t.ended:
		return zero, fmt.Errorf("receive: %w", t.err)
	default:
		return zero, fmt.Errorf("receive: %w", context.Cause(ctx))
	}
}

// Close ends the port; later senders get ErrPortGone.
func (t *Port[T]) Close() {
	t.raw.Close()
	t.closeWith(errorf(CodeStopped, t.raw.ID().Actor.String(), t.raw.key.port, "the port is closed"))
}
