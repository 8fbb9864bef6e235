package bus

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is the error of every call on a closed or broken Bus; Bus.Err has the reason of a
	// broken one.
	ErrClosed = errors.New("bus: closed")

	// ErrOverflow reports that the queue of one request was full when a reply arrived. The reply is
	// lost.
	ErrOverflow = errors.New("bus: queue full, message lost")

	// ErrDisconnected reports that there is no server at the moment. Nothing was buffered: the
	// caller keeps the message, or drops it.
	ErrDisconnected = errors.New("bus: not connected to a server")

	// ErrNoResponders reports that the server knows no subscriber for the subject of a request.
	ErrNoResponders = errors.New("bus: no responders")

	// ErrTooLarge reports a message larger than the server accepts.
	ErrTooLarge = errors.New("bus: message too large")

	// ErrBadSubject reports an invalid NATS subject.
	ErrBadSubject = errors.New("bus: bad subject")

	// ErrHandlerPanic reports a panic of a subscription's handler.
	ErrHandlerPanic = errors.New("bus: handler panicked")
)

// Reason is the cause of a failed connection.
type Reason string

// The reasons of a ConnectError.
const (
	BadOptions            Reason = "bad options"
	NoServer              Reason = "nothing is listening there"
	WrongCredentials      Reason = "the server refused the credentials"
	UnauthenticatedRemote Reason = "the remote server asks for no authentication; set Insecure to allow it"
	SilentServer          Reason = "a server listens there, but does not answer"
	WrongServer           Reason = "the server is not that of the TLS fingerprint"
	OtherFailure          Reason = "connection failed"
)

// ConnectError is the failure of Open.
type ConnectError struct {
	URL    string // without userinfo
	Reason Reason
	Hint   string // findings on the way, e.g. an unusable local file
	Err    error  // the cause; nil if Reason covers it
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

// Op is the operation of a missing permission.
type Op string

// The operations of a PermissionError.
const (
	OpPublish   Op = "publish"
	OpSubscribe Op = "subscribe"
)

// PermissionError reports an operation forbidden by the server's permissions.
type PermissionError struct {
	Op      Op
	Subject string
}

// Error names the operation and the subject.
func (e *PermissionError) Error() string {
	return fmt.Sprintf("bus: no permission to %s %q", e.Op, e.Subject)
}
