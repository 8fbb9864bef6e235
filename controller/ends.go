package controller

import (
	"encoding/json"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// maxEnds bounds the bytes of the ends in one reply, so that it fits into a message of the control
// connection.
const maxEnds = 32 << 10

// Ends returns the ends from an offset on, in the order of every stream (CTL-18).
func (c *controller) Ends(_ *actor.Context, a agent.EndsRequest) (out []actor.Event, err error) {
	if a.N < 0 || a.N > len(c.ends) {
		return nil, fmt.Errorf("ends of %s after the first %d: want 0 to %d, which there are", c.spec.id(), a.N, len(c.ends))
	}
	size := 0
	for _, e := range c.ends[a.N:] {
		if sizeOf(e) > maxEnds {
			e = bare(e)
		}
		if size += sizeOf(e); size > maxEnds && len(out) > 0 {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

// sizeOf estimates the encoded size of an event.
func sizeOf(e actor.Event) int {
	b, err := json.Marshal(e)
	if err != nil { // it cannot be told with what it has
		return maxEnds + 1
	}
	return len(b)
}

// bare returns an event without the fields of unbounded length.
func bare(e actor.Event) actor.Event {
	e.StderrTail, e.Detail, e.Cause = nil, nil, nil
	return e
}
