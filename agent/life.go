package agent

import (
	"fmt"
	"slices"
)

// Life is where an OS process that runs a proc is in its life, as its host sees it: more than the
// proc's Status says. It only advances.
type Life int8

const (
	Starting Life = iota // asked for
	Started              // executed, not ready
	Reached              // said that it can be reached
	Ending               // asked to stop
	Exited               // terminal: with a code
	Killed               // terminal: by a signal
	Broken               // terminal: never ran, or its end could not be seen
)

var lifeNames = [...]string{"starting", "running", "ready", "stopping", "stopped", "killed", "failed"}

func (l Life) String() string {
	if l < 0 || int(l) >= len(lifeNames) {
		return fmt.Sprintf("life(%d)", int8(l))
	}
	return lifeNames[l]
}

// MarshalText writes the name.
func (l Life) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a name.
func (l *Life) UnmarshalText(text []byte) error {
	i := slices.Index(lifeNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("life %q: want one of %v", text, lifeNames)
	}
	*l = Life(i)
	return nil
}

// Over reports whether the process has ended.
func (l Life) Over() bool { return l >= Exited }

// To is the life after an event, and whether that may follow: a life only advances, and what is over
// stays as it is.
func (l Life) To(next Life) (Life, bool) {
	if l.Over() || next <= l || next > Broken {
		return l, false
	}
	return next, true
}
