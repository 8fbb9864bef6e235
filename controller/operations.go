package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// task is one operation on one host's share of the mesh, off the controller's turn. m is the mesh
// at the start of the task.
type task func(ctx context.Context, p *actor.Proc, m agent.Mesh, host int) (agent.Overlay, error)

// hostAgent addresses the agent of a host.
func hostAgent(p *actor.Proc, h subjects.HostID) actor.Ref[agent.Agent] {
	return agent.Of(h.Proc()).Via(p)
}

// orders are the requests to the agents of a mesh. They run in tasks, beside the controller's turn.
// Their argument m is the mesh of procs at the start of the task.
type orders struct {
	mesh   *Spec // never changed: a mesh that grows or shrinks has other orders
	config *config.Config
}

// procAgents is the cast target of an actor mesh's operations.
func (o orders) procAgents(p *actor.Proc, m agent.Mesh) procAgents {
	return procAgents{cast.Target{Via: p, Placement: Placement(m), Actor: agent.Name, Region: o.mesh.Region}}
}

// create creates a host's ranks, or the actors, and waits until they run or have failed.
func (o orders) create(
	ctx context.Context, p *actor.Proc, m agent.Mesh, host int,
) (agent.Overlay, error) {
	ctx, cancel := context.WithTimeout(ctx, o.spawnLimit())
	defer cancel()
	if o.mesh.Actors != nil {
		return o.createActors(ctx, o.procAgents(p, m))
	}
	return agent.Create.Call(ctx, hostAgent(p, m.Hosts[host]), agent.CreateRequest{
		Lease: o.lease(), Wait: true, Claim: o.mesh.claim(), Gen: m.FirstGen, Procs: &m,
		Config: o.config.Snapshot(),
	})
}

// createActors creates the actors in some procs, and returns their statuses.
func (o orders) createActors(ctx context.Context, to cast.Mesh[agent.Agent]) (agent.Overlay, error) {
	ctx, cancel := context.WithTimeout(ctx, o.spawnLimit())
	defer cancel()
	return cast.Reduce(ctx, to, agent.Create, agent.CreateRequest{
		Lease: o.lease(), Wait: true, Claim: o.mesh.claim(), Actors: o.mesh.Actors,
	}, agent.MergeOverlays)
}

// renewShare renews the leases of a host's ranks, or of the actors, and returns their statuses.
// news is the mesh for a host that may not know it.
func (o orders) renewShare(
	ctx context.Context, p *actor.Proc, m agent.Mesh, host int, news *agent.Mesh,
) (agent.Overlay, error) {
	lease := agent.Lease{ID: o.mesh.id(), TTL: o.lease(), Claim: o.mesh.claim(), Mesh: news}
	within := o.renewalPeriod()
	if lease.TTL > 0 {
		within = lease.TTL / renewals
	}
	if lease.TTL == 0 && o.mesh.TakeOver {
		lease.TTL = agent.Forever // it replaces the lease of the former owner
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if o.mesh.Actors != nil {
		said, err := keepActors(ctx, o.procAgents(p, m), lease)
		if len(said) > 0 && agent.AsFenced(err) == nil {
			return said, nil // the others have ended, or are in the next renewal
		}
		return nil, err
	}
	if o.mesh.Renewer != nil {
		return o.mesh.Renewer.renewLease(ctx, m.Hosts[host], lease)
	}
	return repeated(func() (agent.Overlay, error) {
		return agent.CallWithFallback(ctx, agent.Keepalive, hostAgent(p, m.Hosts[host]), lease)
	})
}

// stop asks a host, or the proc agents, to stop their ranks and waits until they have.
func (o orders) stop(
	ctx context.Context, p *actor.Proc, m agent.Mesh, host int, s agent.StopRequest,
) (agent.Overlay, error) {
	if o.mesh.Actors != nil {
		to := o.procAgents(p, m)
		if s.Region != nil {
			to.target.Region = *s.Region
			s.Region = nil
		}
		return StopActors(ctx, to, s)
	}
	return stopOn(ctx, hostAgent(p, m.Hosts[host]), s)
}

func stopOn(ctx context.Context, host actor.Ref[agent.Agent], s agent.StopRequest) (agent.Overlay, error) {
	return repeated(func() (agent.Overlay, error) { return agent.Stop.CallUrgent(ctx, host, s) })
}

// linkDirections are the links with a host: one for requests, and one for their replies. Each
// breaks when its hostd starts again.
const linkDirections = 2

// repeated gives an order to a host, and again if a link was to the hostd before it. The host
// carries out an order once.
func repeated[R any](order func() (R, error)) (r R, err error) {
	for range 1 + linkDirections {
		r, err = order()
		if !errors.Is(err, actor.ErrLinkBroken) {
			break
		}
	}
	return r, err
}

// checkOwner refuses an order about the mesh from another user's program (AGT-13).
func checkOwner(ctx *actor.Context, of Spec) error {
	return agent.CheckOwner(ctx, "mesh "+of.id(), ctx.Proc().Sender())
}

// Stop stops the mesh and replies once every rank has ended, or at the deadline with the present
// statuses. A repeated Stop of a stopped mesh replies at once.
func (c *controller) Stop(ctx *actor.Context, s agent.StopRequest) (agent.Overlay, error) {
	if err := checkOwner(ctx, c.spec); err != nil {
		return nil, err
	}
	if !c.isFor(s.ID) {
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
		if err := c.checkRegion(*r); err != nil {
			return nil, err
		}
		if r.NumRanks() < c.spec.Region.NumRanks() {
			return c.stopRegion(ctx, s, *r)
		}
		s.Region = nil
	}
	if c.started && !c.isOver() {
		c.stopRanks(ctx, s)
		return nil, c.table.ReplyWhen(ctx, agent.UntilEnded(s.ID), 0)
	}
	return c.table.Overlay(s.ID), nil
}

// StopAll stops the mesh, and then the controller (AGT-8).
func (c *controller) StopAll(ctx *actor.Context, s agent.StopAllRequest) (agent.StopSummary, error) {
	if err := checkOwner(ctx, c.spec); err != nil {
		return agent.StopSummary{}, err
	}
	c.shuttingDown = true
	var asked []agent.State
	if c.fenced == nil {
		asked = agent.Alive(c.table.States(""))
	}
	if s.Grace <= 0 {
		s.Grace = c.stopGrace()
	}
	c.stopRanks(ctx, agent.StopRequest{ID: c.spec.id(), Reason: s.Reason, Grace: s.Grace, Claim: c.spec.claim()})
	answer := actor.Defer[agent.StopSummary](ctx)
	c.table.WhenEnded(ctx, asked, c.stopLimit(s.Grace), func(ctx *actor.Context, done agent.StopSummary) {
		answer.Reply(done, nil)
		ctx.Stop(s.Reason)
	})
	return agent.StopSummary{}, nil
}

// stopRanks stops every rank of a started mesh.
func (c *controller) stopRanks(ctx *actor.Context, s agent.StopRequest) {
	if !c.started || c.isOver() {
		return
	}
	c.announceStop(ctx, s.Reason)
	limit := c.stopLimit(s.Grace)
	o := c.orders
	stop := func(ctx context.Context, p *actor.Proc, m agent.Mesh, host int) (agent.Overlay, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return o.stop(ctx, p, m, host, s)
	}
	c.forEachShare(ctx, c.shares(), stop, c.logStopError, nil)
	ctx.After(limit, func(ctx *actor.Context) {
		if c.fenced == nil && !c.isOver() {
			reason := fmt.Sprintf("%d of %d ranks have not ended", c.table.CountAlive(), c.spec.Region.NumRanks())
			c.emit(ctx, "mesh.stop.failed", reason)
		}
	})
}

// announceStop publishes that the mesh is stopping, before any agent gets a stop.
func (c *controller) announceStop(ctx *actor.Context, reason string) {
	x := &effects{}
	c.state.stopMesh(x, reason, time.Now())
	c.publish(ctx, x.events)
	c.emitProgress(ctx)
}

// renewals is the number of renewals of a lease within its term.
const renewals = 3

// renewalPeriod is the period of lease renewals, or of polls if there is no lease.
func (o orders) renewalPeriod() time.Duration {
	poll := config.SupervisionPollInterval.Get(o.config)
	if lease := o.lease(); lease > 0 {
		return min(lease/renewals, poll)
	}
	return poll
}

// renew renews the leases, one message per host (CTL-2, CTL-4). The replies replace events that
// were lost with a connection. Agents without leases are therefore polled, too.
func (c *controller) renew(ctx *actor.Context) {
	every := c.renewalPeriod()
	c.nextRenewal = time.Now().Add(every)
	if c.spec.Renewer != nil {
		c.nextRenewal = c.spec.Renewer.nextRenewal(every)
	}
	ctx.After(time.Until(c.nextRenewal), func(ctx *actor.Context) {
		if c.isOver() {
			return
		}
		c.noteStall(ctx, time.Since(c.nextRenewal), every)
		c.handle(ctx, renewalDue{})
		c.renewLeases(ctx, c.shares())
		c.askSpares(ctx, func(*actor.Context) {})
		c.renew(ctx)
	})
}

// renewAtNewHostd renews the leases at a host whose hostd may have started again. The reply lacks
// the ranks that ended with the hostd before it (CTL-8).
func (c *controller) renewAtNewHostd(ctx *actor.Context, host subjects.HostID) {
	delete(c.informed, host)
	index := slices.Index(c.spec.Procs.Hosts, host)
	if v := c.evacuations[host]; v != nil {
		index = v.index
	}
	if c.started && index >= 0 && !c.isOver() {
		c.renewLeases(ctx, []int{index})
	}
}

// renewLeases renews each lease of some shares once. The first renewal after a Grow or Shrink tells
// a host the mesh.
func (c *controller) renewLeases(ctx *actor.Context, shares []int) {
	o := c.orders
	m := c.description()
	news := map[int]*agent.Mesh{}
	if c.spec.Actors == nil {
		for i, h := range m.Hosts {
			if c.informed[h] < m.Revision {
				c.informed[h] = m.Revision
				news[i] = &m
			}
		}
	}
	renew := func(ctx context.Context, p *actor.Proc, at agent.Mesh, host int) (agent.Overlay, error) {
		return o.renewShare(ctx, p, at, host, news[host])
	}
	c.forEachShare(ctx, shares, renew, c.onRenewError, nil)
}

// onRenewError reports a failed renewal. It changes no rank (CTL-8).
func (c *controller) onRenewError(ctx *actor.Context, host int, err error) {
	agents := "the agents of its procs"
	if c.spec.Actors == nil {
		if host >= len(c.spec.Procs.Hosts) {
			return // the mesh no longer has it
		}
		delete(c.informed, c.spec.Procs.Hosts[host])
		agents = c.spec.Procs.Hosts[host].String()
	}
	agent.CountersOf(ctx.Proc()).CountRenewalFailure()
	log := ctx.Log()
	log.Warn().Err(err).Str("mesh", c.spec.id()).Str("agent", agents).Msg("cannot renew leases")
	c.emit(ctx, "lease.renew.failed", fmt.Sprintf("%s did not renew leases: %v", agents, err))
}

// noteStall counts and reports a renewal that is more than a whole period late.
func (c *controller) noteStall(ctx *actor.Context, late, every time.Duration) {
	if late <= every {
		return
	}
	c.stalls++
	reason := fmt.Sprintf("the controller was delayed: it renews leases %s late", late.Round(time.Millisecond))
	log := ctx.Log()
	log.Warn().Str("mesh", c.spec.id()).Int("stalls", c.stalls).Msg(reason)
	c.emit(ctx, "controller.stalled", reason)
}

var (
	_ agent.Agent   = (*controller)(nil)
	_ actor.Cleaner = (*controller)(nil)
)
