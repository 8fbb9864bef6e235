package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
)

const (
	// urgentAfter is the time for the procs' agents to confirm the stop of their actors. Afterwards
	// each agent gets its own message.
	urgentAfter = time.Second
	// maxUrgentCalls bounds the concurrent messages.
	maxUrgentCalls = 1024
)

// StopActors stops the actors of a region through their agents, and returns the statuses by rank of
// it once all have ended. It is one cast; earlier data and the folding processes may delay it.
// After a second each agent also gets the stop over the control connection (CTL-2).
func StopActors(ctx context.Context, to cast.Mesh[agent.Agent], s agent.StopRequest) (agent.Overlay, error) {
	ctx, cancel := context.WithCancel(ctx)
	var alone agent.Overlay
	var all bool
	var wg sync.WaitGroup
	wg.Go(func() {
		timer := time.NewTimer(urgentAfter)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		target, err := to.Target()
		if err != nil {
			return // the cast returns the error
		}
		everyone := make([]int, target.Region.NumRanks())
		for rank := range everyone {
			everyone[rank] = rank
		}
		alone, all = callUrgentAll(ctx, to, agent.Stop, s, everyone)
		if all {
			cancel()
		}
	})
	o, err := cast.Reduce(ctx, to, agent.Stop, s, agent.MergeOverlays)
	cancel()
	wg.Wait()
	if all {
		return alone, nil
	}
	if err != nil {
		return withDeadProcs(o.Merge(alone), err)
	}
	return o, nil
}

// withDeadProcs adds the ranks of dead procs to the statuses after a stop: their actors have ended.
// The error remains if other ranks did not reply.
func withDeadProcs(o agent.Overlay, err error) (agent.Overlay, error) {
	partial, ok := errors.AsType[*cast.CoverageError](err)
	if !ok || len(partial.Coverage.Missing) > 0 {
		return o, err
	}
	ended := map[int]agent.Status{}
	for _, f := range partial.Coverage.Failed {
		if !errors.Is(f.Err, actor.ErrProcDead) {
			return o, err
		}
		ended[f.Rank] = agent.Status{Phase: agent.Failed, Reason: f.Err.Error()}
	}
	return o.Merge(agent.OverlayOf(ended)), nil
}

// keepActors renews a lease at the agents of a region and returns the statuses by rank of it. It is
// one cast. After half of the time, silent agents also get the renewal over the control connection
// (CTL-2).
func keepActors(ctx context.Context, to cast.Mesh[agent.Agent], l agent.Lease) (agent.Overlay, error) {
	first, cancel := agent.FirstHalf(ctx)
	defer cancel()
	o, err := cast.Reduce(first, to, agent.Keepalive, l, agent.MergeOverlays)
	partial, ok := errors.AsType[*cast.CoverageError](err)
	if !ok || ctx.Err() != nil || len(partial.Coverage.Missing) == 0 {
		return o, err
	}
	var silent []int
	for _, f := range partial.Coverage.Missing {
		silent = append(silent, f.Rank)
	}
	alone, _ := callUrgentAll(ctx, to, agent.Keepalive, l, silent)
	return o.Merge(alone), err
}

// callUrgentAll sends to agents of a region, by rank, and reports whether all have replied.
func callUrgentAll[M any](
	ctx context.Context, to cast.Mesh[agent.Agent], e actor.Endpoint[agent.Agent, M, agent.Overlay],
	m M, ranks []int,
) (agent.Overlay, bool) {
	by := map[int]agent.Status{}
	answered := 0
	var mu sync.Mutex // guards by and answered
	var wg sync.WaitGroup
	places := make(chan struct{}, maxUrgentCalls)
	for _, rank := range ranks {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			o, err := e.CallUrgent(ctx, to.Ref(rank), m)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answered++
			if len(o) > 0 { // an agent returns its own rank
				by[rank] = o[0].Status
			}
		})
	}
	wg.Wait()
	return agent.OverlayOf(by), answered == len(ranks)
}
