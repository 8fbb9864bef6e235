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

	// ErrKeptAlive refuses a second kept child of one name.
	ErrKeptAlive = errors.New("a kept process of that name lives: adopt it or end it first")

	// ErrGone says that the process of a Record has ended.
	ErrGone = errors.New("process is gone")

	// ErrNotSame says that another process now has the number in a Record.
	ErrNotSame = errors.New("not the same process")

	// ErrOtherBoot says that a Record was written before the machine was booted.
	ErrOtherBoot = errors.New("process belongs to an earlier boot")
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

// An AdoptError says which process could not be adopted and why: ErrGone,
// ErrNotSame, ErrOtherBoot, or an error of the system.
type AdoptError struct {
	Name string
	PID  int
	Err  error
}

func (e *AdoptError) Error() string {
	return fmt.Sprintf("cannot adopt %q (pid %d): %v", e.Name, e.PID, e.Err)
}

func (e *AdoptError) Unwrap() error { return e.Err }
