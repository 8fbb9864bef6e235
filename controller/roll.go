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
	"github.com/castnet-io/castnet/mesh/shape"
)

// roll asks for ranks to be started anew where they are, though they are well: each ends, and is started as its next
// generation (CTL-12). Who wants them one after another asks so.
type roll struct {
	ranks  []int
	grace  time.Duration
	reason string
}

// roll sends the ranks that run on their errand. Those that do not, or are on their way already, are waited for.
func (st *state) roll(x *effects, r roll, now time.Time) {
	for _, rank := range r.ranks {
		seat := st.known(rank)
		if st.phaseOf(rank) == agent.Running && seat.doing == settled && seat.follows == 0 && !st.stopping {
			st.setOff(x, rank, rolls, r.grace, r.reason, now)
		}
		st.rolling[rank] = true
	}
}

// rollOn notes which errands are over: the rank and its actors run, or it has failed on the way.
func (st *state) rollOn(x *effects) {
	for _, rank := range slices.Sorted(maps.Keys(st.rolling)) {
		if seat := st.known(rank); seat.errand == none && (seat.follows == 0 || st.stopping) {
			delete(st.rolling, rank)
			x.rolled = append(x.rolled, rank)
		}
	}
}

// rolling is somebody who waits for ranks that are started anew.
type rolling struct {
	part   shape.Region
	left   map[int]bool // by rank of the mesh
	answer *actor.Deferred[agent.Overlay]
}

// Restart ends the ranks of a region and starts each anew in its place, all at the same time, whatever the policy. It
// answers how they are, by rank of the region: once each runs again with its actors, or has failed for the first time.
func (c *controller) Restart(ctx *actor.Context, r agent.Restarting) (agent.Overlay, error) {
	if !c.names(r.ID) {
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
		return nil, errors.New("actors are not restarted: restart their procs")
	case c.spec.Procs.PerProcess > 1:
		return nil, fmt.Errorf("%d procs of %s share a process: they are not started again", c.spec.Procs.PerProcess, c.spec.id())
	case !c.started || c.stopping:
		return nil, fmt.Errorf("mesh %s does not run", c.spec.id())
	case part.NumRanks() == 0:
		return nil, errors.New("the region has no ranks")
	}
	w := rolling{part: part, left: map[int]bool{}, answer: actor.Defer[agent.Overlay](ctx)}
	for _, base := range part.Ranks() {
		if rank, in := c.spec.Region.ViewRank(base); in {
			w.left[rank] = true
		}
	}
	c.rolls = append(c.rolls, w)
	c.hear(ctx, roll{slices.Sorted(maps.Keys(w.left)), r.Grace, cmp.Or(r.Reason, "its user restarts it")})
	return nil, nil
}

// answerRolled tells those all of whose ranks have come back, or have failed.
func (c *controller) answerRolled(ranks []int) {
	c.rolls = slices.DeleteFunc(c.rolls, func(w rolling) bool {
		for _, rank := range ranks {
			delete(w.left, rank)
		}
		switch {
		case c.fenced != nil:
			w.answer.Reply(nil, c.fenced)
		case len(w.left) == 0:
			w.answer.Reply(c.statuses(w.part), nil)
		default:
			return false
		}
		return true
	})
}
