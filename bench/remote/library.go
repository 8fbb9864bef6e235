package remote

import "context"

// Library is a way to send messages between processes.
type Library struct {
	// Receive starts what messages are sent to.
	Receive func(context.Context) (Receiver, error)
	// Send makes what sends to a receiver, which is in another process and has that address.
	Send func(ctx context.Context, address string) (Sender, error)
}

// Receiver counts its messages, and answers a call with the same bytes.
type Receiver interface {
	// Address is how a sender finds it: one line of text.
	Address() string
	Close(context.Context) error
}

// Sender sends to one receiver. Tell is called by one goroutine, Ask by many.
type Sender interface {
	// Tell sends a message, and waits for room where the library can. An error says that this one was
	// not sent.
	Tell(ctx context.Context, m []byte) error
	// Flush waits until it is known of each message what became of it, where the library tells, and
	// else until all are on their way.
	Flush(context.Context) error
	// Count asks for the number of messages since the receiver started.
	Count(context.Context) (int, error)
	// Ask sends a message and returns the answer.
	Ask(ctx context.Context, m []byte) ([]byte, error)
	Close(context.Context) error
}
