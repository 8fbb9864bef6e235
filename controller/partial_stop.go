package controller

import (
	"context"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
)

// stopRegion stops the ranks of a region of the mesh, with one message for each of their hosts. It
// replies by rank of the region, once they have ended or shortly before the caller's deadline.
func (c *controller) stopRegion(
	ctx *actor.Context, s agent.StopRequest, part shape.Region,
) (agent.Overlay, error) {
	if !c.started || c.isOver() {
		return c.statuses(part), nil
	}
	limit := c.stopLimit(s.Grace)
	if d, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(d)*9/10)
	}
	x := &effects{}
	c.state.stopRegion(x, part, s.Reason, time.Now())
	c.publish(ctx, x.events)
	reply := actor.Defer[agent.Overlay](ctx)
	p := ctx.Proc()
	places := c.locations(c.sharesOf(part))
	pending := len(places)
	orders := c.orders
	for _, at := range places {
		asked := c.newRequest(at)
		ctx.Go(func(work context.Context) func(*actor.Context) {
			work, cancel := context.WithTimeout(work, limit)
			defer cancel()
			o, err := orders.stop(work, p, at.mesh, at.host, s)
			return func(ctx *actor.Context) {
				c.handle(ctx, asked.answered(c.toMeshRanks(o, part), err))
				if err != nil && !c.checkFenced(ctx, err) {
					c.logStopError(ctx, at.host, err)
				}
				pending--
				if pending == 0 {
					c.whenReported(ctx, part, func() { reply.Reply(c.statuses(part), nil) })
				}
			}
		})
	}
	return nil, nil
}

// whenReported calls then once no failure of a region waits for its event.
func (c *controller) whenReported(ctx *actor.Context, part shape.Region, then func()) {
	var by time.Time
	for rank, f := range c.reportedFailures {
		if _, base := c.hostIndex(rank); part.Contains(base) && f.waitUntil.After(by) {
			by = f.waitUntil
		}
	}
	if by.IsZero() {
		then()
		return
	}
	ctx.After(max(0, time.Until(by)), func(ctx *actor.Context) {
		c.handle(ctx, timerFired{})
		then()
	})
}

// checkRegion refuses a region outside the mesh, or one that cannot be stopped alone.
func (r *meshRecord) checkRegion(part shape.Region) error {
	if err := part.SubsetOf(r.spec.Region); err != nil || r.spec.Actors != nil {
		return err
	}
	return r.spec.Procs.CheckRegion(part)
}

// sharesOf returns the shares of the mesh with ranks of a region.
func (r *meshRecord) sharesOf(part shape.Region) (shares []int) {
	if r.spec.Actors != nil {
		return []int{0}
	}
	for _, base := range part.Ranks() {
		if host := base / r.spec.Procs.PerHost; len(shares) == 0 || shares[len(shares)-1] != host {
			shares = append(shares, host)
		}
	}
	return shares
}

// statuses returns the statuses of a region of the mesh, by rank of the region.
func (r *meshRecord) statuses(part shape.Region) agent.Overlay {
	by := map[int]agent.Status{}
	for view, base := range part.Ranks() {
		if rank, in := r.spec.Region.ViewRank(base); in {
			by[view] = r.table.Status(r.spec.id(), rank)
		}
	}
	return agent.OverlayOf(by)
}

// toMeshRanks converts the agents' overlay of a region to ranks of the mesh. Hosts already use
// ranks of the mesh.
func (r *meshRecord) toMeshRanks(o agent.Overlay, part shape.Region) agent.Overlay {
	if r.spec.Actors == nil {
		return o
	}
	by := map[int]agent.Status{}
	o.Each(part.NumRanks(), func(view int, s agent.Status) {
		base, err := part.BaseRank(view)
		if rank, in := r.spec.Region.ViewRank(base); in && err == nil {
			by[rank] = s
		}
	})
	return agent.OverlayOf(by)
}
