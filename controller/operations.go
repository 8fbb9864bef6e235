package controller

import (
	"context"
	"errors"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
)

// host addresses the agent of the mesh's n-th host.
func (c *controller) host(p *actor.Proc, n int) actor.Ref[agent.Agent] {
	return agent.Of(c.spec.Procs.Hosts[n].Proc()).Via(p)
}

// agents is the cast target of an actor mesh's operations.
func (c *controller) agents(p *actor.Proc) agents {
	return agents{cast.Target{Via: p, Placement: Placement(c.spec.Procs), Actor: agent.Name, Region: c.spec.Region}}
}

// create asks for a host's ranks and waits until they run or have failed.
func (c *controller) create(ctx context.Context, p *actor.Proc, host int) (agent.Overlay, error) {
	ctx, cancel := context.WithTimeout(ctx, spawnLimit)
	defer cancel()
	wait := agent.Waiting{ID: c.spec.id(), Until: agent.Running}
	if c.spec.Actors != nil {
		creation := agent.Creation{Actors: c.spec.Actors}
		if o, err := cast.Reduce(ctx, c.agents(p), agent.Create, creation, agent.MergeOverlays); err != nil {
			return o, err
		}
		return cast.Reduce(ctx, c.agents(p), agent.Wait, wait, agent.MergeOverlays)
	}
	creation := agent.Creation{Procs: &c.spec.Procs, Lease: c.spec.lease()}
	if o, err := agent.Create.Call(ctx, c.host(p, host), creation); err != nil {
		return o, err
	}
	return agent.Wait.Call(ctx, c.host(p, host), wait)
}

// stop asks a host, or the proc agents, to stop their ranks and waits until they have.
func (c *controller) stop(ctx context.Context, p *actor.Proc, host int, s agent.Stopping) (agent.Overlay, error) {
	if c.spec.Actors != nil {
		return cast.Reduce(ctx, c.agents(p), agent.Stop, s, agent.MergeOverlays)
	}
	return agent.Stop.Call(ctx, c.host(p, host), s)
}

// Stop stops the mesh and answers once every rank has ended, or at the deadline with the statuses
// as they are. Stopping what has stopped answers at once.
func (c *controller) Stop(ctx *actor.Context, s agent.Stopping) (agent.Overlay, error) {
	if s.Grace <= 0 {
		s.Grace = stopGrace
	}
	s.ID = c.spec.id()
	if c.started && !c.over() {
		limit := s.Grace + stopLimit
		c.each(ctx, func(ctx context.Context, p *actor.Proc, host int) (agent.Overlay, error) {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return c.stop(ctx, p, host, s)
		}, c.notStopped)
		c.table.AnswerWhen(ctx, c.spec.id(), agent.Stopped, 0)
	}
	return c.table.Overlay(c.spec.id()), nil
}

// Get is the state of every rank.
func (c *controller) Get(*actor.Context, agent.Query) ([]agent.State, error) {
	return c.table.States(c.spec.id()), nil
}

// Wait answers once every rank has reached a phase.
func (c *controller) Wait(ctx *actor.Context, w agent.Waiting) (agent.Overlay, error) {
	c.table.AnswerWhen(ctx, c.spec.id(), w.Until, 0)
	return nil, nil
}

// Stream sends the end of every rank to a port: those known already at once.
func (c *controller) Stream(ctx *actor.Context, s agent.Stream) (actor.None, error) {
	s.ID = "" // there is one resource here
	if s.End {
		return actor.None{}, c.streams.Add(s)
	}
	for _, e := range c.ends {
		if err := s.To.Send(ctx, e); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, c.streams.Add(s)
}

// renew keeps the procs' leases, one message per host (CTL-2, CTL-4). The answers make up for events
// that were lost with a connection.
func (c *controller) renew(ctx *actor.Context) {
	ctx.After(c.spec.lease()/3, func(ctx *actor.Context) {
		if c.over() {
			return
		}
		p, lease := ctx.Proc(), agent.Lease{ID: c.spec.id(), For: c.spec.lease()}
		for host := range c.spec.Procs.Hosts {
			ctx.Go(func(work context.Context) func(*actor.Context) {
				work, cancel := context.WithTimeout(work, lease.For/3)
				defer cancel()
				o, err := agent.Keepalive.Call(work, c.host(p, host), lease)
				if err != nil {
					log := p.Log()
					log.Warn().Err(err).Stringer("host", c.spec.Procs.Hosts[host]).Msg("a lease was not renewed")
				}
				return func(ctx *actor.Context) { c.hear(ctx, o) }
			})
		}
		c.renew(ctx)
	})
}

// Keepalive answers how the mesh is and changes nothing: a controller lives as long as its owner's
// proc.
func (c *controller) Keepalive(*actor.Context, agent.Lease) (agent.Overlay, error) {
	return c.table.Overlay(c.spec.id()), nil
}

// Logs is for the hosts to answer: they hold the output of the procs.
func (c *controller) Logs(*actor.Context, agent.LogQuery) ([]agent.LogTail, error) {
	return nil, errors.New("ask the hosts' agents: they hold the output of the procs")
}

// Ping is answered by whoever can be reached.
func (c *controller) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

var (
	_ agent.Agent   = (*controller)(nil)
	_ actor.Cleaner = (*controller)(nil)
)
