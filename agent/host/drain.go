package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// moveTimeout bounds the move of one rank with its actors, from its end here to ready elsewhere.
const moveTimeout = time.Minute

// drain has owners move the procs of one mesh, or of all, as far as their policies permit. It stops
// the others, and replies once none is left. The host stays.
func (a *hostAgent) drain(ctx *actor.Context, d agent.DrainRequest) error {
	err := a.checkRights(ctx)
	if d.Mesh == "" {
		err = a.checkOwner(ctx)
	}
	if err != nil {
		return err
	}
	order, err := a.beginStops(ctx, stopOrder{d.Mesh, d.Reason, d.Grace, d.MaxConcurrent})
	if err != nil {
		return err
	}
	caller := callerOf(ctx)
	a.onModeChange(a.gate.mode())
	a.emitHostEvent(ctx, agent.StepDrain, d.Reason, caller.sender)
	answer := actor.Defer[agent.StopSummary](ctx)
	a.evacuate(ctx, d, func(ctx *actor.Context, moved int) {
		a.stopMeshes(ctx, order, caller, func(ctx *actor.Context, done agent.StopSummary) {
			done.Moved = moved
			a.emitStopResult(ctx, "host.drain", done, caller.sender)
			answer.Reply(done, nil)
		}, func() {})
	})
	return nil
}

// stopOrder is a drain or shutdown. Until endStops its limit counts, and the host takes no procs of
// its mesh.
type stopOrder struct {
	mesh   string // "": all
	reason string
	grace  time.Duration // 0 or less: the host's own
	limit  int           // concurrent stops; 0: the host's own limit
}

// caller is the sender of an order, with the deadline of its wait. Later turns know neither.
type caller struct {
	sender   subjects.Sender
	deadline time.Time // zero: none
}

func callerOf(ctx *actor.Context) caller {
	deadline, _ := ctx.Deadline()
	return caller{ctx.SentBy(), deadline}
}

// beginStops begins an order.
func (a *hostAgent) beginStops(ctx *actor.Context, o stopOrder) (*stopOrder, error) {
	if o.limit < 0 || o.limit > agent.MaxConcurrentMoves {
		return nil, fmt.Errorf("%d concurrent stops: want 1 to %d, or 0 for the host's own limit", o.limit,
			agent.MaxConcurrentMoves)
	}
	a.gate.orders = append(a.gate.orders, &o)
	a.limitStops(ctx)
	return &o, nil
}

func (a *hostAgent) endStops(ctx *actor.Context, o *stopOrder) {
	a.gate.orders = slices.DeleteFunc(a.gate.orders, func(x *stopOrder) bool { return x == o })
	a.limitStops(ctx)
	a.onModeChange(a.gate.mode())
}

// limitStops sets the number of concurrent stops: the largest limit of the orders under way, or
// else the host's own limit. A smaller one would break the StopBound of another order.
func (a *hostAgent) limitStops(ctx *actor.Context) {
	own, largest := a.opts.maxStops(), 0
	for _, o := range a.gate.orders {
		largest = max(largest, cmp.Or(o.limit, own))
	}
	a.stops.setLimit(ctx, cmp.Or(largest, own))
}

// evacuate asks the owners of meshes to move their ranks off the host, also ranks before their
// restart. It returns the number of moved ranks once each owner has replied, or made no progress
// for moveTimeout.
func (a *hostAgent) evacuate(ctx *actor.Context, d agent.DrainRequest, then func(*actor.Context, int)) {
	patience := cmp.Or(max(d.Grace, 0), keys.TerminateGrace.Get(a.opts.Config)) + moveTimeout
	owners := map[subjects.ActorID][]*meshProcs{}
	for _, st := range a.table.States(d.Mesh) {
		of := a.procs[st.ID]
		if m := st.Mesh; of != nil && m != nil && m.World == nil && m.Owner.IsValid() && a.isActive(of, m) {
			owners[m.Owner] = append(owners[m.Owner], of)
		}
	}
	pending, moved := len(owners), 0
	if pending == 0 {
		then(ctx, 0)
		return
	}
	v := agent.EvacuateRequest{Host: a.id, Reason: d.Reason, Grace: d.Grace, MaxConcurrent: d.MaxConcurrent}
	for owner, has := range owners {
		evacuateOwner(ctx, owner, has, v, patience, func(ctx *actor.Context, n int) {
			moved += n
			pending--
			if pending == 0 {
				then(ctx, moved)
			}
		})
	}
}

// isActive reports whether a mesh has procs here, or its owner may start its ranks again.
func (a *hostAgent) isActive(of *meshProcs, m *agent.Mesh) bool {
	if of.alive > 0 {
		return true
	}
	id := m.ID.String()
	if until := a.table.LeaseExpiry(id); !until.IsZero() && time.Now().After(until) {
		return false // the owner is gone, or has no rank left
	}
	hash, err := m.Fingerprint(a.id)
	return err == nil && a.table.HasSpec(id, hash)
}

// evacuateOwner asks one owner and returns the number of moved ranks.
func evacuateOwner(
	ctx *actor.Context, owner subjects.ActorID, has []*meshProcs, v agent.EvacuateRequest,
	patience time.Duration, then func(*actor.Context, int),
) {
	ref, first := actor.RefOf[agent.Agent](owner).Via(ctx.Proc()), countAlive(has)
	limit := time.Duration(max(first, 1)) * patience // also for ranks before their restart
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)*3/4) // the remaining time is for stops
	}
	over := false
	enough, giveUp := context.WithCancel(context.Background())
	done := func(ctx *actor.Context, moved int, err error) {
		if over {
			return
		}
		over = true
		giveUp()
		if err != nil { // unmoved procs are stopped
			log := ctx.Log()
			log.Info().Err(err).Stringer("owner", owner).Msg("the owner of a mesh cannot move the rest of it")
		}
		then(ctx, moved)
	}
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, limit)
		defer cancel()
		defer context.AfterFunc(enough, cancel)()
		answer, err := requestEvacuation(work, ref, v)
		return func(ctx *actor.Context) { done(ctx, answer.Moved, err) }
	})
	left := first
	var look func(*actor.Context)
	look = func(ctx *actor.Context) {
		now := countAlive(has)
		switch {
		case over:
		case now < left:
			left = now
			ctx.After(patience, look)
		default:
			done(ctx, max(first-now, 0), fmt.Errorf("it moved none of %d procs within %s", now, patience))
		}
	}
	ctx.After(patience, look)
}

// countAlive counts the live procs of some meshes.
func countAlive(shares []*meshProcs) (n int) {
	for _, s := range shares {
		n += s.alive
	}
	return n
}

// requestEvacuation asks one owner. A slow one has as long as it needs; a dead one is reported.
func requestEvacuation(ctx context.Context, owner actor.Ref[agent.Agent],
	v agent.EvacuateRequest) (agent.EvacuateResponse, error) {
	answer, err := agent.Evacuate.Call(ctx, owner, v)
	if errors.Is(err, actor.ErrLinkBroken) { // it was to the hostd before this one
		answer, err = agent.Evacuate.Call(ctx, owner, v)
	}
	return answer, err
}
