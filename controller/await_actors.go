package controller

import (
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// maxActorWaiters bounds the requests that wait for actors.
const maxActorWaiters = 4096

// actorWaiter is a request that waits until the actor of a rank runs in a proc of a generation.
type actorWaiter struct {
	rank, gen int
	reply     *actor.Deferred[actor.None]
}

// actorIsUp reports whether a wait for the actor of a rank is over: the actor runs in a proc of
// that generation or a later one, or has ended for good.
func (st *state) actorIsUp(rank, gen int) bool {
	phase := st.phaseOf(rank)
	return phase.Terminal() || phase == agent.Running && st.peek(rank).procGen >= gen
}

// Arrive replies once the actor of a moved rank runs in the rank's present proc, or has ended.
func (c *controller) Arrive(ctx *actor.Context, a agent.AwaitActorRequest) (actor.None, error) {
	rank, in := c.spec.Region.ViewRank(a.Rank)
	switch {
	case c.fenced != nil:
		return actor.None{}, c.fenced
	case c.spec.Actors == nil || a.Mesh != c.spec.Procs.ID || !in || c.actorIsUp(rank, a.Gen):
		return actor.None{}, nil
	case len(c.actorWaiters) >= maxActorWaiters:
		return actor.None{}, fmt.Errorf("cannot wait for the actor: %d requests wait already", maxActorWaiters)
	}
	c.actorWaiters = append(c.actorWaiters, actorWaiter{rank, a.Gen, actor.Defer[actor.None](ctx)})
	return actor.None{}, nil
}

// answerActorWaiters replies to waiters whose actor runs, or to all of them when the mesh has
// another owner.
func (c *controller) answerActorWaiters() {
	c.actorWaiters = slices.DeleteFunc(c.actorWaiters, func(a actorWaiter) bool {
		if c.fenced != nil {
			a.reply.Reply(actor.None{}, c.fenced)
			return true
		}
		if !c.actorIsUp(a.rank, a.gen) {
			return false
		}
		a.reply.Reply(actor.None{}, nil)
		return true
	})
}
