package cli

import "fmt"

// codedError is an error with an exit code (CLI-5).
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// WithCode sets the exit code of an error; nil stays nil.
func WithCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code, err}
}

// Usagef returns an error about the command line: exit code 2.
func Usagef(format string, args ...any) error {
	return WithCode(ExitUsage, fmt.Errorf(format, args...))
}
