package host

import (
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// gate decides whether a host takes procs.
type gate struct {
	cordoned     bool
	cordonReason string
	orders       []*stopOrder // under way
	leaving      bool         // for good
	leaveReason  string
}

// mode returns the host's mode, with the reason if it takes no procs.
func (g gate) mode() (agent.HostMode, string) {
	switch {
	case g.leaving:
		return agent.ModeLeaving, g.leaveReason
	case g.orderOn("") != nil:
		return agent.ModeDraining, g.orderOn("").reason
	case g.cordoned:
		return agent.ModeCordoned, g.cordonReason
	}
	return agent.ModeOpen, ""
}

// orderOn returns the latest order under way to stop one mesh, or all; nil: none.
func (g gate) orderOn(mesh string) *stopOrder {
	for _, o := range slices.Backward(g.orders) {
		if o.mesh == mesh {
			return o
		}
	}
	return nil
}

// admit returns an error if the host takes no procs of a mesh.
func (g gate) admit(label, mesh string) error {
	mode, why := g.mode()
	state := string(mode)
	if mode == agent.ModeOpen {
		o := g.orderOn(mesh)
		if o == nil {
			return nil
		}
		why = o.reason
		state = "draining mesh " + mesh
	}
	err := fmt.Errorf("host %s is %s: it takes no new procs", label, state)
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
