package controller

import (
	"cmp"
	"context"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// batch is ranks that are started anew with one message: of one host, in one generation.
type batch struct {
	host, gen int
	starts    []start
}

// batches puts together what can be asked for with one message (CTL-2); actors are asked for one by one.
func (c *controller) batches(starts []start) (all []batch) {
	slices.SortFunc(starts, func(a, b start) int { return cmp.Compare(a.rank, b.rank) })
	for _, s := range starts {
		host, _ := c.host(s.rank)
		i := slices.IndexFunc(all, func(b batch) bool { return b.host == host && b.gen == s.gen })
		if i < 0 || c.spec.Actors != nil {
			all, i = append(all, batch{host: host, gen: s.gen}), len(all)
		}
		all[i].starts = append(all[i].starts, s)
	}
	return all
}

// startAgain has ranks started anew, as tasks; what comes of it is heard.
func (c *controller) startAgain(ctx *actor.Context, starts []start) {
	p, m := ctx.Proc(), c.spec.Procs
	for _, b := range c.batches(starts) {
		c.restarted += len(b.starts)
		ctx.Go(func(work context.Context) func(*actor.Context) {
			o, err := c.createAgain(work, p, m, b)
			return func(ctx *actor.Context) {
				if !c.refused(ctx, err) {
					c.hear(ctx, started{b.starts, o, err})
				}
			}
		})
	}
}

// createAgain asks for ranks in a later generation, and waits until they run or have failed.
func (c *controller) createAgain(ctx context.Context, p *actor.Proc, m agent.Mesh, b batch) (agent.Overlay, error) {
	ctx, cancel := context.WithTimeout(ctx, c.spawnLimit())
	defer cancel()
	creation := agent.Creation{Lease: c.lease(), Wait: true, Gen: b.gen, Claim: c.spec.claim()}
	if c.spec.Actors != nil {
		rank := b.starts[0].rank
		creation.Actors = c.spec.Actors
		o, err := agent.Create.Call(ctx, c.agents(p, m).Ref(rank), creation)
		if len(o) > 0 {
			o = agent.Overlay{{First: rank, Count: 1, Status: o[0].Status}} // a proc agent speaks of its own
		}
		return o, err
	}
	for _, s := range b.starts {
		if base, err := c.spec.Region.BaseRank(s.rank); err == nil {
			creation.Ranks = append(creation.Ranks, base)
		}
	}
	creation.Procs, creation.Config = &m, c.config.Snapshot()
	return agent.Create.Call(ctx, hostAgent(p, m.Hosts[b.host]), creation)
}

// stopStrays has a host stop what it has of the mesh: the mesh goes on without it.
func (c *controller) stopStrays(ctx *actor.Context, host subjects.HostID) {
	p, m := ctx.Proc(), c.spec.Procs
	s := agent.Stopping{ID: c.spec.id(), Reason: "its mesh has gone on without it", Grace: lastGrace, Claim: c.spec.claim()}
	if c.stopping {
		s.Reason = "its mesh was stopped"
	}
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, c.stopLimit(lastGrace))
		defer cancel()
		var err error
		if c.spec.Actors != nil {
			_, err = c.stop(work, p, m, 0, s)
		} else {
			_, err = agent.Stop.Urge(work, hostAgent(p, host), s)
		}
		return func(ctx *actor.Context) {
			if err != nil && !c.refused(ctx, err) {
				log := ctx.Log()
				log.Warn().Err(err).Str("mesh", c.spec.id()).Stringer("host", host).Msg("what was left there may still run")
			}
		}
	})
}
