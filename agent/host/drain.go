package host

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// ownerWithin is how long the owner of a mesh has to say that it lives, before its ranks are moved.
	ownerWithin = 2 * time.Second
	// moveWithin is how long a rank may take to be ready elsewhere, once it has ended here.
	moveWithin = 30 * time.Second
)

// drain has the procs of a mesh, or all, moved by their owners as far as their policies can, stops the others, and
// answers once none is left. The host stays.
func (a *hostAgent) drain(ctx *actor.Context, d agent.Draining) error {
	if d.AtOnce < 0 || d.AtOnce > agent.MaxAtOnce {
		return fmt.Errorf("drain with %d stops at once: want 1 to %d, or 0 for the host's own limit", d.AtOnce, agent.MaxAtOnce)
	}
	all := d.Mesh == ""
	if err := a.mayEnd(ctx); all && err != nil {
		return err
	}
	if all {
		a.gate.draining++
		a.gate.drainWhy = d.Reason
	}
	if d.AtOnce > 0 {
		a.stops.limit = d.AtOnce
	}
	a.tell(ctx, "host.drain.attempt", d.Reason)
	answer := actor.Defer[agent.Summary](ctx)
	a.vacate(ctx, d, func(ctx *actor.Context, moved int) {
		a.stopMeshes(ctx, d.Mesh, d.Reason, d.Grace, func(ctx *actor.Context, done agent.Summary) {
			if all {
				a.gate.draining--
			}
			a.stops.limit = a.opts.Stops
			done.Moved = moved
			a.tellDone(ctx, "host.drain", done)
			answer.Reply(done, nil)
		})
	})
	return nil
}

// vacate asks the owners of meshes to have what is here elsewhere, and says how many ranks have moved, once all have
// answered, or have had their time.
func (a *hostAgent) vacate(ctx *actor.Context, d agent.Draining, then func(*actor.Context, int)) {
	grace, ranks := d.Grace, 0
	if grace <= 0 {
		grace = keys.TerminateGrace.Get(a.opts.Config)
	}
	owners := map[subjects.ActorID]bool{}
	for _, st := range a.table.States(d.Mesh) {
		if of := a.shares[st.ID]; of == nil || of.alive == 0 {
			continue
		}
		if m := st.Mesh; m != nil && m.World == nil && m.Owner.IsValid() {
			owners[m.Owner] = true
		}
		ranks++
	}
	limit := time.Duration(ranks) * (grace + moveWithin)
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)*3/4) // what is left then is to be stopped
	}
	pending, moved := len(owners), 0
	if pending == 0 {
		then(ctx, 0)
		return
	}
	v := agent.Vacating{Host: a.id, Reason: d.Reason, Grace: d.Grace, AtOnce: d.AtOnce}
	p := ctx.Proc()
	for owner := range owners {
		ref := actor.RefOf[agent.Agent](owner).Via(p)
		ctx.Go(func(work context.Context) func(*actor.Context) {
			done, err := askOwner(work, ref, v, limit)
			return func(ctx *actor.Context) {
				if err != nil { // a mesh that nobody moves is stopped
					log := ctx.Log()
					log.Info().Err(err).Stringer("owner", owner).Msg("the owner of a mesh moves none of it")
				}
				moved += done.Moved
				if pending--; pending == 0 {
					then(ctx, moved)
				}
			}
		})
	}
}

// askOwner asks one owner, if it lives.
func askOwner(ctx context.Context, owner actor.Ref[agent.Agent], v agent.Vacating, limit time.Duration) (agent.Vacated, error) {
	soon, cancel := context.WithTimeout(ctx, min(ownerWithin, limit))
	defer cancel()
	if _, err := agent.Ping.Call(soon, owner, actor.None{}); err != nil {
		return agent.Vacated{}, err
	}
	ctx, cancel = context.WithTimeout(ctx, limit)
	defer cancel()
	return agent.Vacate.Call(ctx, owner, v)
}
