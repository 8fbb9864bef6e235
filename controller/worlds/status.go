package worlds

import (
	"fmt"
	"slices"
)

// Status is how a world is.
type Status string

// A world waits for its declaration; then it is Live while all its procs are there and healthy.
const (
	StatusAwaiting  Status = "awaiting creation"
	StatusLive      Status = "live"
	StatusUnhealthy Status = "unhealthy"
)

// Health is the health of a proc. Only an Alive proc without failed actors is healthy.
type Health string

// Expired is silence, and over with the next heartbeat; the others last as long as the incarnation does.
const (
	HealthAlive       Health = "alive"
	HealthExpired     Health = "expired"
	HealthUnreachable Health = "connection failure" // a message to it came back
	HealthEnded       Health = "ended"
)

// Mode is the role of a joining proc in the system.
type Mode int8

// A proc is a member of its world, or unwatched, or a manager of the system: when a manager dies,
// every world is stopped.
const (
	ModeManaged Mode = iota
	ModeDetached
	ModeManager
)

var modeNames = [...]string{"managed-by-system", "detached", "managing-system"}

func (m Mode) String() string {
	if m < 0 || int(m) >= len(modeNames) {
		return fmt.Sprintf("mode(%d)", int8(m))
	}
	return modeNames[m]
}

// MarshalText writes the name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a name.
func (m *Mode) UnmarshalText(text []byte) error {
	i := slices.Index(modeNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("mode %q: want one of %v", text, modeNames)
	}
	*m = Mode(i)
	return nil
}
