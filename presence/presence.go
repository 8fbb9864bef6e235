package presence

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// State is the state of a host.
type State uint8

// States of a host.
const (
	Alive   State = iota
	Suspect       // silent or hinted at; probed
	Unknown       // not heard so far, or this process cannot hear
	Dead
)

var stateNames = [...]string{"alive", "suspect", "unknown", "dead"}

func (s State) String() string {
	if int(s) >= len(stateNames) {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// Change reports a new state, mode, gateway or incarnation of a host.
type Change struct {
	Host       subjects.HostID
	State      State
	Reason     string
	Silence    time.Duration      // since the last heartbeat, or the start of the watch
	NeverHeard bool               // no heartbeat so far
	Graceful   bool               // dead after a goodbye
	Mode       agent.HostMode     // last known mode; changes are reported for live hosts
	Gateway    subjects.ProcessID // the gateway of its last heartbeat, as for Mode
	At         time.Time

	Incarnation uint64 // of its last heartbeat, as for Mode: a hostd that starts again has another
}
