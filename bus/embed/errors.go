package embed

import (
	"errors"
	"fmt"
)

// ErrUnauthenticated says that a server was about to be open to the network
// without asking who comes.
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
