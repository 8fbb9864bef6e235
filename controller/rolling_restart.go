package controller

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
)

// restartOrder restarts healthy ranks in place: each ends, and starts as its next generation
// (CTL-6). For a rolling restart the caller sends one order per batch.
type restartOrder struct {
	ranks  []int
	grace  time.Duration
	reason string
}

// beginRestarts starts the migration of the running ranks. Ranks that start or migrate already, or
// that the policy restarts, count as restarted once that is over.
func (st *state) beginRestarts(x *effects, r restartOrder, now time.Time) {
	for _, rank := range r.ranks {
		seat := st.peek(rank)
		if st.phaseOf(rank) == agent.Running && seat.phase == stable && seat.actorWaitGen == 0 && !st.stopping {
			st.beginMove(x, rank, inPlaceRestart, r.grace, r.reason, now)
		}
		st.restarting[rank] = true
	}
}

// endRestarts finds finished restarts: the rank and its actors run, or it failed for good. A rank
// that fails on the way is finished once its policy has restarted it, or given it up.
func (st *state) endRestarts(x *effects) {
	for _, rank := range slices.Sorted(maps.Keys(st.restarting)) {
		if seat := st.peek(rank); seat.phase == stable && (seat.actorWaitGen == 0 || st.stopping) {
			delete(st.restarting, rank)
			x.restarted = append(x.restarted, rank)
		}
	}
}

// restartWaiter is a caller that waits for restarted ranks.
type restartWaiter struct {
	region    shape.Region
	remaining map[int]bool // by rank of the mesh
	reply     *actor.Deferred[agent.Overlay]
}

// Restart ends the ranks of a region and restarts each in place, all at once, whatever the policy.
// It replies by rank of the region, once each runs again with its actors, or has failed for good.
func (c *controller) Restart(ctx *actor.Context, r agent.RestartRequest) (agent.Overlay, error) {
	if err := checkOwner(ctx, c.spec); err != nil {
		return nil, err
	}
	if !c.isFor(r.ID) {
		return nil, nil
	}
	part := c.spec.Region
	if r.Region != nil {
		part = *r.Region
	}
	switch err := part.SubsetOf(c.spec.Region); {
	case c.fenced != nil:
		return nil, c.fenced
	case err != nil:
		return nil, err
	case c.spec.Actors != nil:
		return nil, errors.New("cannot restart actors: restart their procs")
	case c.spec.Procs.PerProcess > 1:
		return nil, fmt.Errorf("cannot restart %s: %d procs share a process", c.spec.id(), c.spec.Procs.PerProcess)
	case !c.started || c.stopping:
		return nil, fmt.Errorf("cannot restart %s: it does not run", c.spec.id())
	case part.NumRanks() == 0:
		return nil, errors.New("cannot restart a region without ranks")
	}
	w := restartWaiter{region: part, remaining: map[int]bool{}, reply: actor.Defer[agent.Overlay](ctx)}
	for _, base := range part.Ranks() {
		if rank, in := c.spec.Region.ViewRank(base); in {
			w.remaining[rank] = true
		}
	}
	c.restartWaiters = append(c.restartWaiters, w)
	ranks := slices.Sorted(maps.Keys(w.remaining))
	c.handle(ctx, restartOrder{ranks, r.Grace, cmp.Or(r.Reason, "restart requested")})
	return nil, nil
}

// answerRestarted replies to waiters whose ranks have all restarted or failed.
func (c *controller) answerRestarted(ranks []int) {
	c.restartWaiters = slices.DeleteFunc(c.restartWaiters, func(w restartWaiter) bool {
		for _, rank := range ranks {
			delete(w.remaining, rank)
		}
		switch {
		case c.fenced != nil:
			w.reply.Reply(nil, c.fenced)
		case len(w.remaining) == 0:
			w.reply.Reply(c.statuses(w.region), nil)
		default:
			return false
		}
		return true
	})
}
