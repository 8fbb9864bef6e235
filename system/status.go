package system

import (
	"fmt"
	"slices"
)

// Status is the phase of a world.
type Status string

// A world waits for its declaration, and then for its procs. It is live while all its procs run and
// are healthy.
const (
	StatusAwaiting  Status = "awaiting creation"
	StatusStarting  Status = "starting"
	StatusLive      Status = "live"
	StatusUnhealthy Status = "unhealthy"
)

// Health is the health of a proc. Only an alive proc without failed actors is healthy.
type Health string

// An expired proc is silent, and is alive again after its next heartbeat. The other states are
// final for a proc.
const (
	HealthAlive       Health = "alive"
	HealthExpired     Health = "expired"
	HealthUnreachable Health = "connection failure" // a message to it was returned
	HealthEnded       Health = "ended"
)

// Mode is the role of a joining proc in the system.
type Mode int8

// A managed proc is a member of its world. A detached proc is not watched. When a manager dies,
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
