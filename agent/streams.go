package agent

import (
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
)

// maxStreams bounds the subscribers of one agent.
const maxStreams = 256

// Streams are an agent's subscribers. They belong to its turn; the zero value has none.
type Streams struct{ list []Stream }

// Add subscribes a port, or says why not; a Stream that ends lets go of the port.
func (s *Streams) Add(st Stream) error {
	switch {
	case st.End:
		s.list = slices.DeleteFunc(s.list, func(x Stream) bool { return x.To.ID() == st.To.ID() })
		return nil
	case !st.To.ID().IsValid():
		return fmt.Errorf("stream: port %q: want the address of an open port", st.To)
	case len(s.list) >= maxStreams:
		return fmt.Errorf("stream to %s: this agent has %d subscribers already", st.To, maxStreams)
	}
	s.list = append(s.list, st)
	return nil
}

// Tell sends an event about a resource to who asked for it. A port that takes no more has
// unsubscribed that way; the log says why.
func (s *Streams) Tell(ctx *actor.Context, id string, e actor.Event) {
	kept := s.list[:0]
	for _, st := range s.list {
		if st.ID == "" || st.ID == id {
			if err := st.To.Send(ctx, e); err != nil {
				log := ctx.Log()
				log.Warn().Err(err).Stringer("port", st.To).Msg("a subscriber is told no more")
				continue
			}
		}
		kept = append(kept, st)
	}
	clear(s.list[len(kept):])
	s.list = kept
}
