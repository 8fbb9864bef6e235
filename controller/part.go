package controller

import (
	"context"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh/shape"
)

// stopPart stops the ranks of a region of the mesh, one message for each host that has some, and answers how
// they are, by rank of the region: once they have ended, or shortly before the asker's deadline.
func (c *controller) stopPart(ctx *actor.Context, s agent.Stopping, part shape.Region) (agent.Overlay, error) {
	if !c.started || c.over() {
		return c.statuses(part), nil
	}
	limit := c.stopLimit(s.Grace)
	if d, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(d)*9/10)
	}
	x := &effects{}
	c.state.stopPart(x, part, s.Reason, time.Now())
	for _, e := range x.news {
		c.streams.Tell(ctx, c.spec.id(), e)
	}
	reply, p, places := actor.Defer[agent.Overlay](ctx), ctx.Proc(), c.places(c.sharesOf(part))
	pending := len(places)
	for _, at := range places {
		asked := c.ask()
		ctx.Go(func(work context.Context) func(*actor.Context) {
			work, cancel := context.WithTimeout(work, limit)
			defer cancel()
			o, err := c.stop(work, p, at.mesh, at.host, s)
			return func(ctx *actor.Context) {
				if c.hear(ctx, answer{asked, c.ofPart(o, part), at.behind}); err != nil && !c.refused(ctx, err) {
					c.notStopped(ctx, at.host, err)
				}
				if pending--; pending == 0 {
					reply.Reply(c.statuses(part), nil)
				}
			}
		})
	}
	return nil, nil
}

// checkPart refuses what is no part of the mesh, or none that can be stopped alone.
func (c *controller) checkPart(part shape.Region) error {
	if err := part.SubsetOf(c.spec.Region); err != nil || c.spec.Actors != nil {
		return err
	}
	return c.spec.Procs.CheckPart(part)
}

// sharesOf are the shares of the mesh that have ranks of a region.
func (c *controller) sharesOf(part shape.Region) (shares []int) {
	if c.spec.Actors != nil {
		return []int{0}
	}
	for _, base := range part.Ranks() {
		if host := base / c.spec.Procs.PerHost; len(shares) == 0 || shares[len(shares)-1] != host {
			shares = append(shares, host)
		}
	}
	return shares
}

// statuses are those of a region of the mesh, by its own ranks.
func (st *state) statuses(part shape.Region) agent.Overlay {
	by := map[int]agent.Status{}
	for view, base := range part.Ranks() {
		if rank, in := st.spec.Region.ViewRank(base); in {
			by[view] = st.table.Status(st.spec.id(), rank)
		}
	}
	return agent.OverlayOf(by)
}

// ofPart is what agents said of a region of the mesh, by rank of the mesh. Hosts say it so themselves.
func (st *state) ofPart(o agent.Overlay, part shape.Region) agent.Overlay {
	if st.spec.Actors == nil {
		return o
	}
	by := map[int]agent.Status{}
	o.Each(part.NumRanks(), func(view int, s agent.Status) {
		base, err := part.BaseRank(view)
		if rank, in := st.spec.Region.ViewRank(base); in && err == nil {
			by[rank] = s
		}
	})
	return agent.OverlayOf(by)
}
