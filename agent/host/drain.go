package host

import (
	"cmp"
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
	// moveWithin is how long a rank may take to be ready elsewhere, once it has ended here, and its actors with it.
	moveWithin = time.Minute
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
		a.takes(a.gate.mode())
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
				a.takes(a.gate.mode())
			}
			a.stops.limit = a.opts.Stops
			done.Moved = moved
			a.tellDone(ctx, "host.drain", done)
			answer.Reply(done, nil)
		})
	})
	return nil
}

// vacate asks the owners of meshes to have what is here elsewhere, and says how many ranks have moved, once each has
// answered, or has moved none for as long as one may take.
func (a *hostAgent) vacate(ctx *actor.Context, d agent.Draining, then func(*actor.Context, int)) {
	patience := cmp.Or(max(d.Grace, 0), keys.TerminateGrace.Get(a.opts.Config)) + moveWithin
	owners := map[subjects.ActorID][]*share{}
	for _, st := range a.table.States(d.Mesh) {
		of := a.shares[st.ID]
		if m := st.Mesh; of != nil && of.alive > 0 && m != nil && m.World == nil && m.Owner.IsValid() {
			owners[m.Owner] = append(owners[m.Owner], of)
		}
	}
	pending, moved := len(owners), 0
	if pending == 0 {
		then(ctx, 0)
		return
	}
	v := agent.Vacating{Host: a.id, Reason: d.Reason, Grace: d.Grace, AtOnce: d.AtOnce}
	for owner, has := range owners {
		a.vacateFor(ctx, owner, has, v, patience, func(ctx *actor.Context, n int) {
			moved += n
			if pending--; pending == 0 {
				then(ctx, moved)
			}
		})
	}
}

// vacateFor asks one owner, and says how many ranks it has moved.
func (a *hostAgent) vacateFor(ctx *actor.Context, owner subjects.ActorID, has []*share, v agent.Vacating, patience time.Duration, then func(*actor.Context, int)) {
	ref, first := actor.RefOf[agent.Agent](owner).Via(ctx.Proc()), alive(has)
	limit := time.Duration(first) * patience
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)*3/4) // what is left then is to be stopped
	}
	over := false
	enough, giveUp := context.WithCancel(context.Background())
	done := func(ctx *actor.Context, moved int, err error) {
		if over {
			return
		}
		over = true
		giveUp()
		if err != nil { // what nobody moves is stopped
			log := ctx.Log()
			log.Info().Err(err).Stringer("owner", owner).Msg("the owner of a mesh moves no more of it")
		}
		then(ctx, moved)
	}
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, limit)
		defer cancel()
		defer context.AfterFunc(enough, cancel)()
		answer, err := askOwner(work, ref, v)
		return func(ctx *actor.Context) { done(ctx, answer.Moved, err) }
	})
	left := first
	var look func(*actor.Context)
	look = func(ctx *actor.Context) {
		now := alive(has)
		switch {
		case over:
		case now < left:
			left = now
			ctx.After(patience, look)
		default:
			done(ctx, first-now, fmt.Errorf("it has moved none of %d within %s", now, patience))
		}
	}
	ctx.After(patience, look)
}

// alive counts the procs of some shares that have not ended.
func alive(shares []*share) (n int) {
	for _, s := range shares {
		n += s.alive
	}
	return n
}

// askOwner asks one owner, if it lives.
func askOwner(ctx context.Context, owner actor.Ref[agent.Agent], v agent.Vacating) (agent.Vacated, error) {
	soon, cancel := context.WithTimeout(ctx, ownerWithin)
	defer cancel()
	if _, err := agent.Ping.Call(soon, owner, actor.None{}); err != nil {
		return agent.Vacated{}, err
	}
	return agent.Vacate.Call(ctx, owner, v)
}
