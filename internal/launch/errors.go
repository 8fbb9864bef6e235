package launch

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed reports that the launcher was closed before or during the call.
	ErrClosed = errors.New("launcher is closed")

	// ErrPayloadTooLarge reports a payload over MaxPayload, on either side.
	ErrPayloadTooLarge = fmt.Errorf("payload is larger than %d bytes", MaxPayload)

	// ErrPayloadTaken reports a second call of Inherited.Payload, or one after Close.
	ErrPayloadTaken = errors.New("payload was already read or released")

	// ErrKeptAlive refuses a second kept child of one name.
	ErrKeptAlive = errors.New("a kept process of that name lives: adopt it or end it first")

	// ErrGone reports that the process of a Record has ended.
	ErrGone = errors.New("process is gone")

	// ErrPIDReused reports that another process has the number of a Record.
	ErrPIDReused = errors.New("not the same process")

	// ErrOtherBoot reports a Record from before the last boot.
	ErrOtherBoot = errors.New("process belongs to an earlier boot")
)

// LaunchError reports a failed launch of a child.
type LaunchError struct {
	Name string // Spec.Name
	Path string // Spec.Path
	Err  error  // the cause
}

func (e *LaunchError) Error() string {
	return fmt.Sprintf("cannot launch %q (%s): %v", e.Name, e.Path, e.Err)
}

func (e *LaunchError) Unwrap() error { return e.Err }

// AdoptError reports a failed adoption: ErrGone, ErrPIDReused, ErrOtherBoot, or a system error.
type AdoptError struct {
	Name string
	PID  int
	Err  error
}

func (e *AdoptError) Error() string {
	return fmt.Sprintf("cannot adopt %q (pid %d): %v", e.Name, e.PID, e.Err)
}

func (e *AdoptError) Unwrap() error { return e.Err }
