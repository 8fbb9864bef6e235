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
		return nil, fmt.Errorf("cannot list ends of %s from offset %d: want 0 to %d", c.spec.id(), a.N, len(c.ends))
	}
	size := 0
	for _, e := range c.ends[a.N:] {
		if sizeOf(e) > maxEnds {
			e = bare(e)
		}
		size += sizeOf(e)
		if size > maxEnds && len(out) > 0 {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

// sizeOf estimates the encoded size of an event.
func sizeOf(e actor.Event) int {
	b, err := json.Marshal(e)
	if err != nil {
		return maxEnds + 1 // bare drops what cannot be encoded
	}
	return len(b)
}

// bare returns an event without the fields of unbounded length.
func bare(e actor.Event) actor.Event {
	e.StderrTail = nil
	e.Detail = nil
	e.Cause = nil
	return e
}
