package shape

import (
	"errors"
	"fmt"
)

// ErrNotRegion is wrapped by the error for a selection that is not a single region.
var ErrNotRegion = errors.New("selection is not one region")

// Error names an input and what was expected instead.
type Error struct {
	What  string // what the input was meant to be
	Input string
	Want  string

	cause error // ErrNotRegion, or nil
}

func (e *Error) Unwrap() error { return e.cause }

// Error shows the start of a long input only: a peer may have chosen it.
func (e *Error) Error() string {
	const most = 200
	if len(e.Input) > most {
		return fmt.Sprintf("%s %q… (%d bytes): want %s", e.What, e.Input[:most], len(e.Input), e.Want)
	}
	return fmt.Sprintf("%s %q: want %s", e.What, e.Input, e.Want)
}

const wantLabel = "1 to 32 characters of A-Z a-z 0-9 _ -, starting with a letter or digit"

// isLabel is the label rule of package subjects, which this package may not import.
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > 32 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isLabelChar(c) || i == 0 && (c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// isLabelChar reports whether a character may be in a label.
func isLabelChar(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '-'
}
