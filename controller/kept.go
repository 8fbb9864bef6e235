package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// keptAtOnce bounds how many procs of a dead host are asked at a time.
const keptAtOnce = 64

// outlive reports whether procs of a dead host may go on without it, which they are to be asked (CTL-16).
func (st *state) outlive(x *effects, index int, h hostIs) bool {
	if !st.spec.Procs.Keep || st.deserted[h.Host] {
		return false
	}
	ranks := st.keptOn(index)
	for _, rank := range ranks {
		st.describe(rank, fmt.Sprintf("its host %s is dead, and its proc is kept: %s", h.Host.Label(), h.Reason))
	}
	if len(ranks) > 0 {
		x.asks = append(x.asks, h.Host)
	}
	return len(ranks) > 0
}

// keptOn are the ranks on a host whose procs may outlive it.
func (st *state) keptOn(index int) []int {
	return slices.DeleteFunc(st.ranksOn(index), func(rank int) bool {
		phase := st.phaseOf(rank)
		return phase != agent.Running && phase != agent.ShuttingDown
	})
}

// askKept asks the procs of a dead host whether they go on without it: again and again, until the host is back or none
// of them answers.
func (c *controller) askKept(ctx *actor.Context, host subjects.HostID) {
	if c.asking[host] {
		return
	}
	c.asking[host] = true
	to, within := c.agents(ctx.Proc(), c.spec.Procs), config.SupervisionDead.Get(c.config)
	ranks := c.keptOn(slices.Index(c.spec.Procs.Hosts, host))
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, within)
		defer cancel()
		answers := anyAnswers(work, to, ranks)
		return func(ctx *actor.Context) { c.asked(ctx, host, answers) }
	})
}

// asked takes whether any proc of a dead host has answered.
func (c *controller) asked(ctx *actor.Context, host subjects.HostID, answers bool) {
	h, known := c.hosts[host]
	if answers && known {
		ctx.After(config.SupervisionPoll.Get(c.config), func(ctx *actor.Context) {
			delete(c.asking, host)
			if h, known := c.hosts[host]; known && h.State == presence.Dead {
				c.hear(ctx, hostIs(h))
			}
		})
		return
	}
	delete(c.asking, host)
	if known && h.State == presence.Dead {
		c.deserted[host] = true
		c.hear(ctx, hostIs(h))
	}
}

// anyAnswers reports whether the proc of any of these ranks does.
func anyAnswers(ctx context.Context, to agents, ranks []int) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var answered atomic.Bool
	var wg sync.WaitGroup
	places := make(chan struct{}, keptAtOnce)
	for _, rank := range ranks {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if _, err := agent.Ping.Call(ctx, to.Ref(rank), actor.None{}); err == nil {
				answered.Store(true)
				cancel() // one is enough
			}
		})
	}
	wg.Wait()
	return answered.Load()
}
