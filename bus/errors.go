package bus

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is what every call answers once the Bus is closed or broken;
	// Bus.Err says which of the two, and why.
	ErrClosed = errors.New("bus: closed")

	// ErrOverflow says that the queue of one request was full when a reply
	// arrived. The reply is lost.
	ErrOverflow = errors.New("bus: queue full, message lost")

	// ErrDisconnected says that there is no server at the moment. Nothing was
	// buffered: the caller keeps the message, or gives it up.
	ErrDisconnected = errors.New("bus: not connected to a server")

	// ErrNoResponders says that the server knows nobody who listens on the
	// subject of a request.
	ErrNoResponders = errors.New("bus: no responders")

	// ErrTooLarge says that a message exceeds what the server accepts.
	ErrTooLarge = errors.New("bus: message too large")

	// ErrBadSubject says that a subject cannot be used on NATS.
	ErrBadSubject = errors.New("bus: bad subject")

	// ErrHandlerPanic says that a subscription's handler panicked.
	ErrHandlerPanic = errors.New("bus: handler panicked")
)

// Reason says why a connection could not be made.
type Reason string

// The reasons of a ConnectError.
const (
	BadOptions       Reason = "bad options"
	NothingListening Reason = "nothing is listening there"
	WrongCredentials Reason = "the server refused the credentials"
	OffLoopback      Reason = "the server is not on this machine and asks for no authentication; refused (say Insecure to allow it)"
	OtherFailure     Reason = "connection failed"
)

// ConnectError is the failure of Open.
type ConnectError struct {
	URL    string // without userinfo
	Reason Reason
	Hint   string // what was found out on the way, e.g. an unusable local file
	Err    error  // the cause, nil when Reason says it all
}

// Error names the URL, the reason, the cause and the hint.
func (e *ConnectError) Error() string {
	s := fmt.Sprintf("bus: connect to %s: %s", e.URL, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// Op names what a permission was missing for.
type Op string

// The operations of a PermissionError.
const (
	OpPublish   Op = "publish"
	OpSubscribe Op = "subscribe"
)

// PermissionError says that the server's permissions forbid an operation.
type PermissionError struct {
	Op      Op
	Subject string
}

// Error names the operation and the subject.
func (e *PermissionError) Error() string {
	return fmt.Sprintf("bus: no permission to %s %q", e.Op, e.Subject)
}
