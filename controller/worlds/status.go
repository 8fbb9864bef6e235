package worlds

import (
	"fmt"
	"slices"
)

// Status is how a world is.
type Status string

// A world waits for its declaration; then it is Live while all its procs are there and healthy.
const (
	Awaiting  Status = "awaiting creation"
	Live      Status = "live"
	Unhealthy Status = "unhealthy"
)

// Health is how a proc is. Only one that is Alive, and none of whose actors has failed, is healthy.
type Health string

// Expired is silence, and over with the next heartbeat; the others last as long as the incarnation does.
const (
	Alive       Health = "alive"
	Expired     Health = "expired"
	Unreachable Health = "connection failure" // a message to it came back
	Ended       Health = "ended"
)

// Mode is what a proc that joins is to the system.
type Mode int8

// A proc is a member of its world, or nobody that is watched over, or one without which there is no
// system: when it dies, every world is stopped.
const (
	ManagedBySystem Mode = iota
	Detached
	ManagingSystem
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
