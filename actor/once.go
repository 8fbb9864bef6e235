package actor

import (
	"context"
	"sync"
)

// OncePort is a port that takes one message (PORT-1), for a single answer. A message of another
// type is refused and does not use the port up. Later senders get ErrPortGone.
type OncePort[T any] struct {
	port *Port[T]

	mu     sync.Mutex // guards over, and orders the message and the end
	closed bool       // it has had its message, or has ended
}

// OpenOnce opens a port for one message. It closes itself after that message; close it if the
// message may never come. It may be called on any goroutine.
func OpenOnce[T any](at PortOwner) *OncePort[T] {
	o := &OncePort[T]{port: newPort[T](1)}
	o.port.raw = openPrivate(at, o.recv, o.closeWith)
	return o
}

func (o *OncePort[T]) recv(at RawPort, in Incoming) error {
	v, err := decodeIncoming[T](at, in)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return at.goneError("the once port has received its message, or is closed")
	}
	o.closed = true
	o.port.put(v, false) // there is room: it is the only one
	at.Close()
	o.port.closeWith(at.goneError("the once port has received its message"))
	return nil
}

func (o *OncePort[T]) closeWith(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.port.closeWith(err)
}

// Ref is the port's address, to be sent to others: one of them gets through.
func (o *OncePort[T]) Ref() PortRef[T] { return o.port.Ref() }

// Recv waits for the message, until ctx, the port or its actor ends. A message from before the end
// is still received. After the message, Recv returns ErrPortGone. It may be called on any
// goroutine.
func (o *OncePort[T]) Recv(ctx context.Context) (T, error) { return o.port.Recv(ctx) }

// Close ends the port; later senders get ErrPortGone. A second call does nothing.
func (o *OncePort[T]) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.port.Close()
}
