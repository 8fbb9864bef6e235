package presence

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// State is what is known of a host.
type State uint8

// The states.
const (
	Alive   State = iota
	Suspect       // silent, or hinted at: it is being asked
	Unknown       // this process cannot tell: it has not heard of it yet, or could not have
	Dead
)

var names = [...]string{"alive", "suspect", "unknown", "dead"}

func (s State) String() string {
	if int(s) >= len(names) {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return names[s]
}

// Change is a new state of a host, or a new mode.
type Change struct {
	Host    subjects.HostID
	State   State
	Reason  string
	Silence time.Duration  // since it was heard, or first watched
	Unheard bool           // it was never heard of
	Left    bool           // dead: it has said goodbye
	Mode    agent.HostMode // as it said last; a change of it is told of who is alive
	At      time.Time
}
