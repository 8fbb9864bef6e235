package actor

import (
	"context"
	"sync"
)

// Once is a port that takes one message (PORT-1): the place for a single answer. What is not a T is
// refused and does not use it up; whoever sends after the one message is told ErrPortGone.
type Once[T any] struct {
	port *Port[T]

	mu   sync.Mutex // guards over, and orders the message and the end
	over bool       // it has had its message, or has ended
}

// OpenOnce opens a port for one message. It closes itself when that has come; close it when it may
// never come. It may be called on any goroutine.
func OpenOnce[T any](at Opener) *Once[T] {
	o := &Once[T]{port: newPort[T](1)}
	o.port.raw = openAt(at, o.recv, o.end)
	return o
}

func (o *Once[T]) recv(at RawPort, in Incoming) error {
	v, err := read[T](at, in)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return at.gone("the once port has had its message, or is closed")
	}
	o.over = true
	o.port.queue <- v // there is room: it is the only one
	at.Close()
	o.port.end(at.gone("the once port has had its message"))
	return nil
}

func (o *Once[T]) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	o.port.end(err)
}

// Ref is the port's address, to be sent to others: one of them gets through.
func (o *Once[T]) Ref() PortRef[T] { return o.port.Ref() }

// Recv waits for the message, until ctx ends, or the port is closed or its actor ends. A message
// that came before the end is still received; once it is, Recv returns ErrPortGone. It may be called
// on any goroutine.
func (o *Once[T]) Recv(ctx context.Context) (T, error) { return o.port.Recv(ctx) }

// Close ends the port; senders from then on are told that it is gone. A second call does nothing.
func (o *Once[T]) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	o.port.Close()
}
