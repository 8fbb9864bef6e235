package controller

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// maxOrphansAsked bounds the procs of a dead host that are probed at a time.
const maxOrphansAsked = 64

// procsMayOutlive reports whether procs of a dead host may still run, and so must be probed
// (CTL-16).
func (st *state) procsMayOutlive(x *effects, index int, h hostChange) bool {
	if !st.spec.Procs.Keep || st.withoutOrphans[h.Host] {
		return false
	}
	ranks := st.orphansOn(index)
	for _, rank := range ranks {
		st.setReason(rank, fmt.Sprintf("its host %s is dead; its proc may still run: %s", h.Host.Label(), h.Reason))
	}
	if len(ranks) > 0 {
		x.orphanHosts = append(x.orphanHosts, h.Host)
	}
	return len(ranks) > 0
}

// orphansOn returns the ranks on a host whose procs may outlive it.
func (r *meshRecord) orphansOn(index int) []int {
	return slices.DeleteFunc(r.ranksOn(index), func(rank int) bool { return !r.isLive(rank) })
}

// isLive reports whether the proc of a rank runs or stops.
func (r *meshRecord) isLive(rank int) bool {
	phase := r.phaseOf(rank)
	return phase == agent.Running || phase == agent.ShuttingDown
}

// checkOrphans probes the procs of a dead host until the host is back or none of them answers.
func (c *controller) checkOrphans(ctx *actor.Context, host subjects.HostID) {
	if c.orphanChecks[host] {
		return
	}
	c.orphanChecks[host] = true
	to := c.procAgents(ctx.Proc(), c.spec.Procs)
	within := config.SupervisionDeadAfter.Get(c.config)
	ranks := c.orphansOn(slices.Index(c.spec.Procs.Hosts, host))
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, within)
		defer cancel()
		answers := anyAnswers(work, to, ranks)
		return func(ctx *actor.Context) { c.handleOrphanCheck(ctx, host, answers) }
	})
}

// handleOrphanCheck handles the result of checkOrphans: whether any proc of the host answers.
func (c *controller) handleOrphanCheck(ctx *actor.Context, host subjects.HostID, answers bool) {
	h, known := c.hosts[host]
	if answers && known {
		ctx.After(config.SupervisionPollInterval.Get(c.config), func(ctx *actor.Context) {
			delete(c.orphanChecks, host)
			if h, known := c.hosts[host]; known && h.State == presence.Dead {
				c.handle(ctx, hostChange(h))
			}
		})
		return
	}
	delete(c.orphanChecks, host)
	if known && h.State == presence.Dead {
		c.withoutOrphans[host] = true
		c.handle(ctx, hostChange(h))
	}
}

// anyAnswers reports whether the proc of any of these ranks answers.
func anyAnswers(ctx context.Context, to procAgents, ranks []int) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var answered atomic.Bool
	fanout.Each(maxOrphansAsked, ranks, func(_, rank int) {
		if _, err := agent.Ping.Call(ctx, to.Ref(rank), actor.None{}); err == nil {
			answered.Store(true)
			cancel() // one is enough
		}
	})
	return answered.Load()
}
