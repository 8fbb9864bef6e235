package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// task is one operation on one host's share of the mesh, off the controller's turn; m is the mesh as it was
// when it began.
type task func(ctx context.Context, p *actor.Proc, m agent.Mesh, host int) (agent.Overlay, error)

// hostAgent addresses the agent of a host.
func hostAgent(p *actor.Proc, h subjects.HostID) actor.Ref[agent.Agent] {
	return agent.Of(h.Proc()).Via(p)
}

// agents is the cast target of an actor mesh's operations.
func (c *controller) agents(p *actor.Proc, m agent.Mesh) agents {
	return agents{cast.Target{Via: p, Placement: Placement(m), Actor: agent.Name, Region: c.spec.Region}}
}

// create asks for a host's ranks, or those of the actors, and waits until they run or have failed.
func (c *controller) create(ctx context.Context, p *actor.Proc, m agent.Mesh, host int) (agent.Overlay, error) {
	ctx, cancel := context.WithTimeout(ctx, c.spawnLimit())
	defer cancel()
	creation := agent.Creation{Lease: c.lease(), Wait: true, Claim: c.spec.claim()}
	if c.spec.Actors != nil {
		creation.Actors = c.spec.Actors
		return cast.Reduce(ctx, c.agents(p, m), agent.Create, creation, agent.MergeOverlays)
	}
	creation.Procs, creation.Config = &m, c.config.Snapshot()
	return agent.Create.Call(ctx, hostAgent(p, m.Hosts[host]), creation)
}

// keep renews the leases of a host's ranks, or of the actors, and says how they are.
func (c *controller) keep(ctx context.Context, p *actor.Proc, m agent.Mesh, host int) (agent.Overlay, error) {
	lease := agent.Lease{ID: c.spec.id(), For: c.lease(), Claim: c.spec.claim()}
	within := c.period()
	if lease.For > 0 {
		within = lease.For / renewals
	}
	if lease.For == 0 && c.spec.Take { // that of the owner before is in force
		lease.For = agent.Forever
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if c.spec.Actors != nil {
		o, err := keepActors(ctx, c.agents(p, m), lease)
		if len(o) > 0 && agent.Fenced(err) == nil {
			return o, nil // the others have ended, or will be asked again
		}
		return nil, err
	}
	if c.spec.Keeper != nil {
		return c.spec.Keeper.keep(ctx, m.Hosts[host], lease)
	}
	return agent.Insist(ctx, agent.Keepalive, hostAgent(p, m.Hosts[host]), lease)
}

// stop asks a host, or the proc agents, to stop their ranks and waits until they have.
func (c *controller) stop(ctx context.Context, p *actor.Proc, m agent.Mesh, host int, s agent.Stopping) (agent.Overlay, error) {
	if c.spec.Actors != nil {
		to := c.agents(p, m)
		if s.Region != nil {
			to.target.Region, s.Region = *s.Region, nil
		}
		return StopActors(ctx, to, s)
	}
	return agent.Stop.Urge(ctx, hostAgent(p, m.Hosts[host]), s)
}

// Stop stops the mesh and answers once every rank has ended, or at the deadline with the statuses
// as they are. Stopping what has stopped answers at once.
func (c *controller) Stop(ctx *actor.Context, s agent.Stopping) (agent.Overlay, error) {
	if !c.names(s.ID) {
		return nil, nil
	}
	if s.Grace <= 0 {
		s.Grace = c.stopGrace()
	}
	if c.fenced != nil {
		return nil, c.fenced
	}
	s.Claim = c.spec.claim()
	if r := s.Region; r != nil {
		if err := c.checkPart(*r); err != nil {
			return nil, err
		}
		if r.NumRanks() < c.spec.Region.NumRanks() {
			return c.stopPart(ctx, s, *r)
		}
		s.Region = nil
	}
	if c.started && !c.over() {
		c.halt(ctx, s)
		return nil, c.table.AnswerWhen(ctx, agent.Ended(s.ID), 0)
	}
	return c.table.Overlay(s.ID), nil
}

// StopAll stops the mesh, and then the controller (AGT-8).
func (c *controller) StopAll(ctx *actor.Context, s agent.StoppingAll) (agent.Summary, error) {
	c.leaving = true
	var asked []agent.State
	for _, st := range c.table.States("") {
		if !st.Status.Phase.Terminal() && c.fenced == nil {
			asked = append(asked, st)
		}
	}
	if s.Grace <= 0 {
		s.Grace = c.stopGrace()
	}
	c.halt(ctx, agent.Stopping{ID: c.spec.id(), Reason: s.Reason, Grace: s.Grace, Claim: c.spec.claim()})
	answer := actor.Defer[agent.Summary](ctx)
	c.table.AnswerAll(ctx, asked, c.stopLimit(s.Grace), func(ctx *actor.Context) {
		now := c.table.States("")
		for i, st := range asked {
			asked[i] = now[st.Rank]
			asked[i].Mesh = nil
		}
		answer.Reply(agent.Summarize(asked), nil)
		ctx.Stop(s.Reason)
	})
	return agent.Summary{}, nil
}

// halt has every rank of a mesh that was started stopped.
func (c *controller) halt(ctx *actor.Context, s agent.Stopping) {
	if !c.started || c.over() {
		return
	}
	c.begin(ctx, s.Reason)
	limit := c.stopLimit(s.Grace)
	c.each(ctx, func(ctx context.Context, p *actor.Proc, m agent.Mesh, host int) (agent.Overlay, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return c.stop(ctx, p, m, host, s)
	}, c.notStopped)
	ctx.After(limit, func(ctx *actor.Context) {
		if c.fenced == nil && !c.over() {
			c.tell(ctx, "mesh.stop.failed", fmt.Sprintf("%d of %d ranks have not ended", c.table.Alive(), c.spec.Region.NumRanks()))
		}
	})
}

// begin has the mesh known as one that stops, before anybody is asked to stop anything.
func (c *controller) begin(ctx *actor.Context, reason string) {
	x := &effects{}
	c.state.stop(x, reason, time.Now())
	for _, e := range x.news {
		c.streams.Tell(ctx, c.spec.id(), e)
	}
	c.progress(ctx)
}

// renewals is how often a lease is renewed within its term.
const renewals = 3

// period is how often leases are renewed, and agents asked where there are none.
func (c *controller) period() time.Duration {
	poll := config.SupervisionPoll.Get(c.config)
	if lease := c.lease(); lease > 0 {
		return min(lease/renewals, poll)
	}
	return poll
}

// renew keeps the leases, one message per host (CTL-2, CTL-4). The answers make up for events
// that were lost with a connection, so agents are asked where there is no lease, too.
func (c *controller) renew(ctx *actor.Context) {
	every := c.period()
	c.renewal = time.Now().Add(every)
	if c.spec.Keeper != nil {
		c.renewal = c.spec.Keeper.next(every)
	}
	ctx.After(time.Until(c.renewal), func(ctx *actor.Context) {
		if c.over() {
			return
		}
		c.stalled(ctx, time.Since(c.renewal), every)
		c.each(ctx, c.keep, c.notRenewed)
		c.askSpares(ctx, func(*actor.Context) {})
		c.renew(ctx)
	})
}

// notRenewed tells that leases were not renewed: it blames no rank (CTL-5).
func (c *controller) notRenewed(ctx *actor.Context, host int, err error) {
	who := "the agents of its procs"
	if c.spec.Actors == nil {
		who = c.spec.Procs.Hosts[host].String()
	}
	log := ctx.Log()
	log.Warn().Err(err).Str("mesh", c.spec.id()).Str("agent", who).Msg("leases were not renewed")
	c.tell(ctx, "lease.renew.failed", fmt.Sprintf("%s did not renew leases: %v", who, err))
}

// stalled counts a renewal that comes more than a whole period late, and tells.
func (c *controller) stalled(ctx *actor.Context, late, every time.Duration) {
	if late <= every {
		return
	}
	c.stalls++
	reason := fmt.Sprintf("this controller was held up: leases are renewed %s late", late.Round(time.Millisecond))
	log := ctx.Log()
	log.Warn().Str("mesh", c.spec.id()).Int("stalls", c.stalls).Msg(reason)
	c.tell(ctx, "controller.stalled", reason)
}

var (
	_ agent.Agent       = (*controller)(nil)
	_ actor.Cleaner     = (*controller)(nil)
	_ actor.Undeliverer = (*controller)(nil)
)
