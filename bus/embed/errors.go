package embed

import (
	"errors"
	"fmt"
)

// ErrUnauthenticated reports a server open to the network without authentication. Such a server
// does not start.
var ErrUnauthenticated = errors.New("embed: a server off loopback needs authentication")

// StartError is the failure of Start.
type StartError struct {
	Addr string // where it was to listen; "" for a server that does not listen
	Err  error
}

// Error names the address and the cause.
func (e *StartError) Error() string {
	if e.Addr == "" {
		return fmt.Sprintf("embed: start server: %v", e.Err)
	}
	return fmt.Sprintf("embed: start server on %s: %v", e.Addr, e.Err)
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }
