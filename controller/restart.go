package controller

import (
	"cmp"
	"context"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// restartBatch is a set of ranks restarted with one message: one host, one generation.
type restartBatch struct {
	host, gen int
	starts    []rankStart
}

// restartBatches groups the starts that fit into one message (CTL-2). Actors start one by one.
func (r *meshRecord) restartBatches(starts []rankStart) (all []restartBatch) {
	slices.SortFunc(starts, func(a, b rankStart) int { return cmp.Compare(a.rank, b.rank) })
	for _, s := range starts {
		host, _ := r.hostIndex(s.rank)
		i := slices.IndexFunc(all, func(b restartBatch) bool { return b.host == host && b.gen == s.gen })
		if i < 0 || r.spec.Actors != nil {
			i = len(all)
			all = append(all, restartBatch{host: host, gen: s.gen})
		}
		all[i].starts = append(all[i].starts, s)
	}
	return all
}

// restartRanks restarts ranks as tasks; the results arrive as events.
func (c *controller) restartRanks(ctx *actor.Context, starts []rankStart) {
	p := ctx.Proc()
	m := c.spec.Procs
	orders := c.orders
	for _, b := range c.restartBatches(starts) {
		c.restarts += len(b.starts)
		ctx.Go(func(work context.Context) func(*actor.Context) {
			o, err := orders.createNextGen(work, p, m, b)
			return func(ctx *actor.Context) {
				if !c.checkFenced(ctx, err) {
					c.handle(ctx, startResult{b.starts, o, err})
				}
			}
		})
	}
}

// createNextGen creates ranks in a later generation, and waits until they run or have failed.
func (o orders) createNextGen(
	ctx context.Context, p *actor.Proc, m agent.Mesh, b restartBatch,
) (agent.Overlay, error) {
	ctx, cancel := context.WithTimeout(ctx, o.spawnLimit())
	defer cancel()
	creation := agent.CreateRequest{Lease: o.lease(), Wait: true, Gen: b.gen, Claim: o.mesh.claim()}
	if o.mesh.Actors != nil {
		rank := b.starts[0].rank
		creation.Actors = o.mesh.Actors
		said, err := agent.Create.Call(ctx, o.procAgents(p, m).Ref(rank), creation)
		if len(said) > 0 {
			said = agent.Overlay{{First: rank, Count: 1, Status: said[0].Status}} // it returns its own rank
		}
		return said, err
	}
	for _, s := range b.starts {
		if base, err := o.mesh.Region.BaseRank(s.rank); err == nil {
			creation.Ranks = append(creation.Ranks, base)
		}
	}
	creation.Procs = &m
	creation.Config = o.config.Snapshot()
	host := hostAgent(p, m.Hosts[b.host])
	return repeated(func() (agent.Overlay, error) { return agent.Create.Call(ctx, host, creation) })
}

// stopStale stops the remaining procs of the mesh on a host that has returned.
func (c *controller) stopStale(ctx *actor.Context, host subjects.HostID) {
	s := agent.StopRequest{ID: c.spec.id(), Reason: "its mesh continued without this host"}
	if c.stopping {
		s.Reason = "its mesh was stopped"
	}
	c.stopRest(ctx, host, s, func(ctx *actor.Context, err error) { c.handle(ctx, staleStopped{host, err}) })
}

// stopLate stops a rank again: its start may have reached the host after the stop.
func (c *controller) stopLate(ctx *actor.Context, rank int) {
	_, base := c.hostIndex(rank)
	part, err := c.spec.Procs.Extent.Region().Single(base)
	if err != nil {
		return // it cannot fail: the mesh has the rank
	}
	s := agent.StopRequest{ID: c.spec.id(), Reason: "it was stopped", Region: &part}
	c.stopRest(ctx, c.hostOf(rank), s, func(*actor.Context, error) {})
}

// stopRest stops procs on a host, or actors, after the mesh counts them as ended.
func (c *controller) stopRest(
	ctx *actor.Context, host subjects.HostID, s agent.StopRequest, then func(*actor.Context, error),
) {
	p := ctx.Proc()
	m := c.spec.Procs
	o := c.orders
	s.Grace = closingGrace
	s.Claim = c.spec.claim()
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, o.stopLimit(closingGrace))
		defer cancel()
		var err error
		if o.mesh.Actors != nil {
			_, err = o.stop(work, p, m, 0, s)
		} else {
			_, err = stopOn(work, hostAgent(p, host), s)
		}
		return func(ctx *actor.Context) {
			then(ctx, err)
			if err != nil && !c.checkFenced(ctx, err) {
				log := ctx.Log()
				log.Warn().Err(err).Str("mesh", c.spec.id()).Stringer("host", host).
					Msg("cannot stop the old procs on the host: they may still run")
			}
		}
	})
}
