package controller

import (
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// maxArrivals bounds how many wait for actors to arrive.
const maxArrivals = 4096

// arrival is somebody who waits until the actor of a rank runs in a proc of a generation.
type arrival struct {
	rank, gen int
	answer    *actor.Deferred[actor.None]
}

// there reports whether the actor of a rank runs in a proc of that generation, or a later one, or never will.
func (st *state) there(rank, gen int) bool {
	phase := st.phaseOf(rank)
	return phase.Terminal() || phase == agent.Running && st.known(rank).proc >= gen
}

// Arrive answers once the actor of a rank runs in the proc that has the rank since it moved, or has ended.
func (c *controller) Arrive(ctx *actor.Context, a agent.Arriving) (actor.None, error) {
	rank, in := c.spec.Region.ViewRank(a.Rank)
	switch {
	case c.fenced != nil:
		return actor.None{}, c.fenced
	case c.spec.Actors == nil || a.Mesh != c.spec.Procs.ID || !in || c.there(rank, a.Gen):
		return actor.None{}, nil
	case len(c.arrivals) >= maxArrivals:
		return actor.None{}, fmt.Errorf("%d wait for actors to arrive already", maxArrivals)
	}
	c.arrivals = append(c.arrivals, arrival{rank, a.Gen, actor.Defer[actor.None](ctx)})
	return actor.None{}, nil
}

// answerArrivals tells those whose actor is there, or everybody who waits when another has the mesh.
func (c *controller) answerArrivals() {
	c.arrivals = slices.DeleteFunc(c.arrivals, func(a arrival) bool {
		there := c.there(a.rank, a.gen)
		switch {
		case c.fenced != nil:
			a.answer.Reply(actor.None{}, c.fenced)
			return true
		case there:
			a.answer.Reply(actor.None{}, nil)
		}
		return there
	})
}
