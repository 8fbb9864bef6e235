package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// maxStreams bounds the subscribers of an agent.
const maxStreams = 256

// Subscribers are the event subscriptions of an agent. They belong to its turn. The zero value is
// empty.
type Subscribers struct{ list []subscriber }

type subscriber struct {
	resource          string // resource ID; "" = all
	port              actor.PortRef[actor.Event]
	rankOffset        int // added to the rank of each event: the agent's position in the subscriber's view
	heartbeatInterval time.Duration
}

// Add subscribes a port or returns an error. A request with Cancel removes the port. The subscriber
// first receives now, the present state. A later subscription of the port replaces the first
// without a repetition of events.
func (s *Subscribers) Add(ctx *actor.Context, st StreamRequest, rank int, now []actor.Event) error {
	if !st.Cancel && !st.To.ID().IsValid() {
		return fmt.Errorf("stream: port %q: want the address of an open port", st.To)
	}
	if told := s.isSubscribed(st.To.ID(), st.ID); told {
		now = nil
	}
	s.Remove(st.To.ID())
	if st.Cancel {
		return nil
	}
	if len(s.list) >= maxStreams {
		return fmt.Errorf("stream to %s: this agent has %d subscribers already", st.To, maxStreams)
	}
	sub := subscriber{st.ID, st.To, rank, st.HeartbeatInterval}
	for _, e := range now {
		if err := sub.send(ctx, e); err != nil {
			return fmt.Errorf("stream to %s: %w", st.To, err)
		}
	}
	s.list = append(s.list, sub)
	return nil
}

// isSubscribed reports whether a port subscribes to a resource.
func (s *Subscribers) isSubscribed(port subjects.PortID, id string) bool {
	return slices.ContainsFunc(s.list,
		func(x subscriber) bool { return x.port.ID() == port && x.resource == id })
}

// Remove ends the subscription of a port. It returns false without one.
func (s *Subscribers) Remove(port subjects.PortID) bool {
	before := len(s.list)
	s.list = slices.DeleteFunc(s.list, func(x subscriber) bool { return x.port.ID() == port })
	return len(s.list) < before
}

// HandleDeadLetter ends the subscription of a port whose message came back. It returns false
// without one. Agents call it from their own HandleDeadLetter.
func (s *Subscribers) HandleDeadLetter(r actor.DeadLetter) bool {
	for _, sub := range s.list {
		if id := sub.port.ID(); r.Reason.Actor == id.Actor.String() && r.Reason.Endpoint == id.Port {
			return s.Remove(id)
		}
	}
	return false
}

// Len counts the subscribers.
func (s *Subscribers) Len() int { return len(s.list) }

// Publish sends an event about a resource to its subscribers. It removes unreachable subscribers.
// It logs a warning unless the port was closed.
func (s *Subscribers) Publish(ctx *actor.Context, id string, e actor.Event) {
	kept := s.list[:0]
	for _, sub := range s.list {
		if sub.resource == "" || sub.resource == id {
			if err := sub.send(ctx, e); err != nil {
				log := ctx.Log()
				line := log.Warn()
				if errors.Is(err, actor.ErrPortGone) {
					line = log.Debug()
				}
				line.Err(err).Stringer("port", sub.port).Msg("dropping subscriber: send failed")
				continue
			}
		}
		kept = append(kept, sub)
	}
	clear(s.list[len(kept):])
	s.list = kept
}

func (s subscriber) send(ctx *actor.Context, e actor.Event) error {
	e.Rank += s.rankOffset
	return s.port.Send(ctx, e)
}

// StepFenced is the event step of a controller that lost its mesh to another one (FencedFromEvent).
const StepFenced = "controller.fenced"

// StepHeartbeat is the event step of a live controller's periodic heartbeat.
const StepHeartbeat = "controller.beat"

// SendHeartbeats sends due heartbeats to subscribers. It returns the time until the next one, or
// false without such subscribers.
func (s *Subscribers) SendHeartbeats(ctx *actor.Context, e actor.Event) (every time.Duration, any bool) {
	for _, sub := range slices.Clone(s.list) {
		if sub.heartbeatInterval <= 0 {
			continue
		}
		if sub.send(ctx, e) != nil {
			s.Remove(sub.port.ID())
			continue
		}
		if !any || sub.heartbeatInterval < every {
			every, any = sub.heartbeatInterval, true
		}
	}
	return every, any
}
