package launch

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed says that the launcher was closed before or during the call.
	ErrClosed = errors.New("launcher is closed")

	// ErrPayloadTooLarge says that a payload exceeds MaxPayload, on either side.
	ErrPayloadTooLarge = fmt.Errorf("payload is larger than %d bytes", MaxPayload)

	// ErrPayloadTaken says that Inherited.Payload was called a second time, or
	// after Close.
	ErrPayloadTaken = errors.New("payload was already read or let go")
)

// A LaunchError says which child could not be started and why.
type LaunchError struct {
	Name string // Spec.Name
	Path string // Spec.Path
	Err  error  // the cause
}

func (e *LaunchError) Error() string {
	return fmt.Sprintf("cannot launch %q (%s): %v", e.Name, e.Path, e.Err)
}

func (e *LaunchError) Unwrap() error { return e.Err }
