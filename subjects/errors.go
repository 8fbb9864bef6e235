package subjects

import "fmt"

// Error reports a malformed text. It is the only concrete error of this package.
type Error struct {
	What  string // the role of the text, as "host label"
	Input string // the text itself
	Want  string // the rule it breaks
}

// Error names the input and shows the rule.
func (e *Error) Error() string {
	// A peer chose the input: show enough to recognise it, not all of it.
	const maxQuoted = 120
	if len(e.Input) > maxQuoted {
		return fmt.Sprintf("%s %q… (%d bytes): want %s", e.What, e.Input[:maxQuoted], len(e.Input), e.Want)
	}
	return fmt.Sprintf("%s %q: want %s", e.What, e.Input, e.Want)
}

// errInvalid is the error of marshaling an invalid ID (SUB-1).
func errInvalid(what string) error {
	return &Error{What: what, Want: "a valid ID, not a zero or hand-made invalid one"}
}
