package host

import (
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// gate decides whether a host takes procs.
type gate struct {
	cordoned  bool
	cordonWhy string
	draining  int // drains of all procs that are under way
	drainWhy  string
	leaving   bool // for good
	leaveWhy  string
}

// mode is what the gate does, and why when it does not let in.
func (g gate) mode() (agent.HostMode, string) {
	switch {
	case g.leaving:
		return agent.Leaving, g.leaveWhy
	case g.draining > 0:
		return agent.Drains, g.drainWhy
	case g.cordoned:
		return agent.Cordoned, g.cordonWhy
	}
	return agent.Open, ""
}

// admit says why a host takes no procs; nil: it does.
func (g gate) admit(label string) error {
	mode, why := g.mode()
	if mode == agent.Open {
		return nil
	}
	err := fmt.Errorf("host %s is %s: it takes no new procs", label, mode)
	if why != "" {
		err = fmt.Errorf("%w (%s)", err, why)
	}
	return err
}

// slots bound how much is under way at a time; the rest waits for its turn, in order. A limit of 0 or
// less is none.
type slots struct {
	limit, busy int
	queue       []func(*actor.Context)
}

// enter runs f now, or when others have left. f has its slot until leave is called for it.
func (s *slots) enter(ctx *actor.Context, f func(*actor.Context)) {
	if s.limit > 0 && s.busy >= s.limit {
		s.queue = append(s.queue, f)
		return
	}
	s.busy++
	f(ctx)
}

// leave gives a slot to the next in line.
func (s *slots) leave(ctx *actor.Context) {
	s.busy--
	if len(s.queue) == 0 {
		return
	}
	next := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.busy++
	next(ctx)
}
