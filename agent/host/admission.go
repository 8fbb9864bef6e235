package host

import (
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// gate decides whether a host takes procs.
type gate struct {
	cordoned     bool
	cordonReason string
	drains       int // drains of all procs under way
	drainReason  string
	leaving      bool // for good
	leaveReason  string
}

// mode returns the host's mode, with the reason if it takes no procs.
func (g gate) mode() (agent.HostMode, string) {
	switch {
	case g.leaving:
		return agent.ModeLeaving, g.leaveReason
	case g.drains > 0:
		return agent.ModeDraining, g.drainReason
	case g.cordoned:
		return agent.ModeCordoned, g.cordonReason
	}
	return agent.ModeOpen, ""
}

// admit returns an error if the host takes no procs.
func (g gate) admit(label string) error {
	mode, why := g.mode()
	if mode == agent.ModeOpen {
		return nil
	}
	err := fmt.Errorf("host %s is %s: it takes no new procs", label, mode)
	if why != "" {
		err = fmt.Errorf("%w (%s)", err, why)
	}
	return err
}

// semaphore bounds concurrent work. Further work waits in order. A limit of 0 or less means no
// bound.
type semaphore struct {
	limit, held int
	queue       []func(*actor.Context)
}

// acquire runs f once a slot is free. The slot is taken until release.
func (s *semaphore) acquire(ctx *actor.Context, f func(*actor.Context)) {
	if s.limit > 0 && s.held >= s.limit {
		s.queue = append(s.queue, f)
		return
	}
	s.held++
	f(ctx)
}

// release gives a slot to the next in line.
func (s *semaphore) release(ctx *actor.Context) {
	s.held--
	s.startQueued(ctx)
}

// setLimit changes the bound. Waiting work uses a higher one at once.
func (s *semaphore) setLimit(ctx *actor.Context, limit int) {
	s.limit = limit
	s.startQueued(ctx)
}

func (s *semaphore) startQueued(ctx *actor.Context) {
	for len(s.queue) > 0 && (s.limit <= 0 || s.held < s.limit) {
		next := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.held++
		next(ctx)
	}
}
