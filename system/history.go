package system

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// maxPastEvents and maxPastBytes bound the remembered events.
	maxPastEvents = 256
	maxPastBytes  = 512 << 10
	// maxPastEvent bounds one; a longer event loses its last output, details and causes.
	maxPastEvent = 8 << 10
	// eventInbox is the Inbox of the history. It drops events without room.
	eventInbox = "history"
)

// history holds the newest failures that were published in the system (WORLD-18).
type history struct {
	mu     sync.Mutex
	events []actor.Event
	sizes  []int
	bytes  int
}

// listen records the failures on a connection until stop.
func (h *history) listen(c *bus.Conn, space subjects.Space) (stop func() error, err error) {
	var subs []*bus.Sub
	stop = func() (err error) {
		for _, sub := range subs {
			err = errors.Join(err, sub.Unsubscribe())
		}
		return err
	}
	for _, filter := range []string{space.Events("", subjects.MeshID{}), space.HostEvents(subjects.MeshID{})} {
		sub, err := c.Lossy(eventInbox).Subscribe(filter, func(m bus.Msg) {
			if e, err := actor.DecodeEventFrom(space, m); err == nil && isPast(e) {
				h.add(e)
			}
		})
		if err != nil {
			return stop, errors.Join(err, stop())
		}
		subs = append(subs, sub)
	}
	return stop, nil
}

// isPast reports whether an event is a failure, a bad change of a world, or the drain or shutdown
// of a host. An owner's confirmation of a failure is none.
func isPast(e actor.Event) bool {
	if e.Kind == actor.KindRank && e.Step != agent.StepFenced && !strings.HasPrefix(e.Step, "rank.") {
		return false
	}
	return e.Failed() || slices.Contains(pastSteps[:], e.Step)
}

// pastSteps are steps without the status failed.
var pastSteps = [...]string{
	agent.StepFenced, agent.StepDrain, agent.StepShutdown,
	"world.unhealthy", "world.evict", "world.end",
}

func (h *history) add(e actor.Event) {
	size := sizeOf(e)
	if size > maxPastEvent {
		e.StderrTail = nil
		e.Detail = nil
		e.Cause = nil
		size = sizeOf(e)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	h.sizes = append(h.sizes, size)
	h.bytes += size
	over := 0
	for left := len(h.events); h.bytes > maxPastBytes || left > maxPastEvents; left-- {
		h.bytes -= h.sizes[over]
		over++
	}
	h.events = slices.Delete(h.events, 0, over)
	h.sizes = slices.Delete(h.sizes, 0, over)
}

// list returns the remembered events, the earliest first.
func (h *history) list() []actor.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// sizeOf returns the encoded size of an event.
func sizeOf(e actor.Event) int {
	b, err := json.Marshal(e)
	if err != nil {
		return maxPastBytes // it cannot be sent
	}
	return len(b)
}
