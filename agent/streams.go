package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// maxStreams bounds the subscribers of one agent.
const maxStreams = 256

// Streams are an agent's subscribers. They belong to its turn; the zero value has none.
type Streams struct{ list []subscriber }

type subscriber struct {
	id   string // of the resource; "" = all
	to   actor.PortRef[actor.Event]
	rank int // added to the rank of each event: where the agent stands in the view of who asked
	beat time.Duration
}

// Add subscribes a port, or says why not; a Stream that ends lets go of the port. now is how what it
// asks about is at this moment, which it is told first. A port has one subscription: another one takes the
// place of the first, and what it was told about the same is not told again.
func (s *Streams) Add(ctx *actor.Context, st Stream, rank int, now []actor.Event) error {
	if !st.End && !st.To.ID().IsValid() {
		return fmt.Errorf("stream: port %q: want the address of an open port", st.To)
	}
	if told := s.has(st.To.ID(), st.ID); told {
		now = nil
	}
	s.Drop(st.To.ID())
	if st.End {
		return nil
	}
	if len(s.list) >= maxStreams {
		return fmt.Errorf("stream to %s: this agent has %d subscribers already", st.To, maxStreams)
	}
	sub := subscriber{st.ID, st.To, rank, st.Beat}
	for _, e := range now {
		if err := sub.tell(ctx, e); err != nil {
			return fmt.Errorf("stream to %s: %w", st.To, err)
		}
	}
	s.list = append(s.list, sub)
	return nil
}

// has reports whether a port subscribes to a resource.
func (s *Streams) has(port subjects.PortID, id string) bool {
	return slices.ContainsFunc(s.list, func(x subscriber) bool { return x.to.ID() == port && x.id == id })
}

// Drop ends the subscription of a port, and reports whether there was one.
func (s *Streams) Drop(port subjects.PortID) bool {
	before := len(s.list)
	s.list = slices.DeleteFunc(s.list, func(x subscriber) bool { return x.to.ID() == port })
	return len(s.list) < before
}

// Returned ends the subscription of the port that a message came back from, and reports whether there
// was one. Agents call it from Undeliverable: a subscriber that has gone harms nobody.
func (s *Streams) Returned(r actor.Returned) bool {
	for _, sub := range s.list {
		if id := sub.to.ID(); r.Reason.Actor == id.Actor.String() && r.Reason.Endpoint == id.Port {
			return s.Drop(id)
		}
	}
	return false
}

// Len is how many subscribers there are.
func (s *Streams) Len() int { return len(s.list) }

// Tell sends an event about a resource to its subscribers. A subscriber that cannot be told is dropped, with a warning
// unless it has closed its port.
func (s *Streams) Tell(ctx *actor.Context, id string, e actor.Event) {
	kept := s.list[:0]
	for _, sub := range s.list {
		if sub.id == "" || sub.id == id {
			if err := sub.tell(ctx, e); err != nil {
				log := ctx.Log()
				line := log.Warn()
				if errors.Is(err, actor.ErrPortGone) {
					line = log.Debug()
				}
				line.Err(err).Stringer("port", sub.to).Msg("dropping subscriber: send failed")
				continue
			}
		}
		kept = append(kept, sub)
	}
	clear(s.list[len(kept):])
	s.list = kept
}

func (s subscriber) tell(ctx *actor.Context, e actor.Event) error {
	e.Rank += s.rank
	return s.to.Send(ctx, e)
}

// Fencing is the step of the event that says that a controller acts no more: another one has its mesh (FencedIn).
const Fencing = "controller.fenced"

// Beat is the step of the events that say that a controller lives, and nothing else.
const Beat = "controller.beat"

// Beat tells the subscribers that asked for it that the agent lives. It says how soon to do so again; false:
// nobody asked.
func (s *Streams) Beat(ctx *actor.Context, e actor.Event) (every time.Duration, any bool) {
	for _, sub := range slices.Clone(s.list) {
		if sub.beat <= 0 {
			continue
		}
		if sub.tell(ctx, e) != nil {
			s.Drop(sub.to.ID())
			continue
		}
		if !any || sub.beat < every {
			every, any = sub.beat, true
		}
	}
	return every, any
}
