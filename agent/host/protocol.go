package host

import (
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// closeGrace is what procs get when the host itself stops.
const closeGrace = 5 * time.Second

// sweepEvery is how often leases are looked at.
const sweepEvery = time.Second

// Stop ends this host's share of a mesh and answers once every proc has ended. A second Stop may
// shorten the grace.
func (a *hostAgent) Stop(ctx *actor.Context, s agent.Stopping) (agent.Overlay, error) {
	a.stop(s)
	a.table.AnswerWhen(ctx, s.ID, agent.Stopped, 0)
	return nil, nil
}

func (a *hostAgent) stop(s agent.Stopping) {
	grace := s.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	for _, c := range a.children {
		if c.mesh.ID.String() != s.ID {
			continue
		}
		if a.table.Advance(s.ID, c.rank, agent.Status{Phase: agent.ShuttingDown, Reason: s.Reason}) {
			c.asked, c.why = true, s.Reason
		}
		if c.process != nil {
			c.process.Terminate(grace)
		}
	}
}

// Wait answers once every proc of a mesh on this host has reached a phase.
func (a *hostAgent) Wait(ctx *actor.Context, w agent.Waiting) (agent.Overlay, error) {
	a.table.AnswerWhen(ctx, w.ID, w.Until, 0)
	return nil, nil
}

// Get lists the procs of this host. A list of all gives each reason in one line and no output: of
// many procs that have crashed it would not fit into a message.
func (a *hostAgent) Get(_ *actor.Context, q agent.Query) ([]agent.State, error) {
	states := a.table.States(q.ID)
	if q.ID != "" {
		return states, nil
	}
	for i := range states {
		s := &states[i]
		s.Status.Reason, _, _ = strings.Cut(s.Status.Reason, "\n")
		if s.Proc != nil {
			p := *s.Proc
			p.StderrTail, s.Proc = nil, &p
		}
	}
	return states, nil
}

// Keepalive renews the lease of a mesh, and answers how its procs here are: what its controller may
// have missed.
func (a *hostAgent) Keepalive(_ *actor.Context, l agent.Lease) (agent.Overlay, error) {
	if l.For > 0 {
		a.table.Keep(l.ID, time.Now().Add(l.For))
	}
	return a.table.Overlay(l.ID), nil
}

// sweep stops the procs of controllers that have gone silent (HOST-7), and looks again later.
func (a *hostAgent) sweep(ctx *actor.Context) {
	ctx.After(sweepEvery, func(ctx *actor.Context) {
		for _, id := range a.table.Expired(time.Now()) {
			log := ctx.Log()
			log.Warn().Str("mesh", id).Msg("the lease ran out: its owner is gone; stopping its procs")
			a.stop(agent.Stopping{ID: id, Reason: "orphaned: its owner kept no lease"})
			a.table.Keep(id, time.Time{})
		}
		a.sweep(ctx)
	})
}

// Stream sends the end of every proc of a mesh, or of all, to a port.
func (a *hostAgent) Stream(_ *actor.Context, s agent.Stream) (actor.None, error) {
	return actor.None{}, a.streams.Add(s)
}

// Ping is answered by whoever can be reached.
func (a *hostAgent) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

// Cleanup ends every proc before the host goes (HOST-5).
func (a *hostAgent) Cleanup(ctx *actor.Context, _ error) error {
	a.stopAll(ctx, closeGrace)
	return nil
}

var (
	_ agent.Agent   = (*hostAgent)(nil)
	_ actor.Cleaner = (*hostAgent)(nil)
)
