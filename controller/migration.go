package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// A healthy rank may migrate: it ends in its place and starts as its next generation, elsewhere or
// in the same place. The migration is over when the rank runs there with those of its actors that
// their owners restart.

// migration is why a rank is on its way.
type migration uint8

const (
	notMigrating   migration = iota
	relocation               // its host is emptied, or its proc goes elsewhere
	inPlaceRestart           // it is started anew in its place
)

// String names the action.
func (e migration) String() string {
	if e == inPlaceRestart {
		return "restarts"
	}
	return "moves"
}

// stepNames are the names of its beginning and its ends.
func (e migration) stepNames() (attempt, success, failed string) {
	if e == inPlaceRestart {
		return "rank.roll.attempt", "rank.roll.success", "rank.roll.failed"
	}
	return "rank.move.attempt", "rank.move.success", "rank.move.failed"
}

// departure is a rank to stop in its old place, with its generation there.
type departure struct {
	rank, gen int
	host      subjects.HostID
	grace     time.Duration
	migration migration
	reason    string
}

// departed reports that a rank ended in its old place, with its actor owners.
type departed struct {
	departure
	owners []subjects.ActorID
	err    error
}

// actorWait is a migrated rank whose actors may not run yet.
type actorWait struct {
	rank, gen int
	owners    []subjects.ActorID
}

// actorsUp reports that the actors of a migrated rank run, or never will.
type actorsUp struct{ rank, gen int }

// beginMove makes a rank of procs leave its place.
func (st *state) beginMove(x *effects, rank int, e migration, grace time.Duration, reason string, now time.Time) {
	host, gen := st.hostOf(rank), st.table.Gen(st.spec.id(), rank)
	st.beginMigration(x, rank, e, reason, departing, now)
	x.departures = append(x.departures, departure{rank, gen, host, grace, e, reason})
}

// beginMigration starts the migration of a rank. It is reported, and counts as no restart.
func (st *state) beginMigration(x *effects, rank int, e migration, reason string, doing restartPhase, now time.Time) {
	st.stopSupervising(rank)
	seat := st.rankState(rank)
	seat.phase, seat.migration, seat.oldHost, seat.owners = doing, e, subjects.HostID{}, nil
	seat.cause = actor.Event{Reason: reason}
	st.table.BeginGeneration(st.spec.id(), rank, st.table.Gen(st.spec.id(), rank)+1, e.String()+": "+reason)
	attempt, _, _ := e.stepNames()
	x.events = append(x.events, st.completeEvent(rank, string(actor.Initializing), actor.Event{Step: attempt, Reason: reason, At: now}))
}

// endMigration ends the migration of a rank: its failures count again.
func (st *state) endMigration(rank int) {
	st.rankState(rank).migration = notMigrating
	if st.supervisor != nil {
		st.supervisor.Started(rank, st.spec.Policy.intensity())
	}
}

// handleDeparted starts a rank in its new place once it has ended in the old one.
func (st *state) handleDeparted(x *effects, h departed, now time.Time) {
	seat := st.peek(h.rank)
	switch {
	case seat.phase != departing || st.table.Gen(st.spec.id(), h.rank) != h.gen+1:
	case h.err != nil:
		reason := "it did not end where it was: " + h.err.Error()
		st.advance(x, h.rank, agent.Status{Phase: agent.Failed, Reason: reason}, actor.Event{Reason: reason, At: now}, now)
	default:
		st.rankState(h.rank).owners = h.owners
		st.startRank(x, h.rank)
	}
}

// handleActorsUp ends the migration of a rank.
func (st *state) handleActorsUp(h actorsUp) {
	if seat := st.rankStates[h.rank]; seat != nil && seat.actorWaitGen == h.gen {
		seat.actorWaitGen = 0
	}
}

// moveWithProc records that an actor's proc moves: the actor waits for it in the new place.
func (st *state) moveWithProc(x *effects, rank int, e actor.Event, now time.Time) {
	seat := st.rankState(rank)
	if st.stopping || st.supervisor == nil || !st.supervisor.Has(rank) || st.phaseOf(rank) != agent.Running || seat.phase != stable {
		return
	}
	st.beginMigration(x, rank, relocation, "its proc moves: "+e.Reason, awaitingProc, now)
	seat.procGen, seat.procEnded, seat.waitUntil = e.Gen, true, now.Add(st.procTimeout)
}

// stopForMove stops a rank in its old place. Owners of its actors learn of the move first.
func (c *controller) stopForMove(ctx *actor.Context, l departure) {
	p, m := ctx.Proc(), c.spec.Procs
	base, err := c.spec.Region.BaseRank(l.rank)
	part, whole := singleRank(m.Extent, base)
	s := agent.StopRequest{ID: c.spec.id(), Reason: l.migration.String() + ": " + l.reason, Grace: cmp.Or(max(l.grace, 0), c.stopGrace()), Region: &part, Claim: c.spec.claim()}
	id, self := m.ProcID(base, l.gen), ctx.Self()
	p.Emit(actor.Event{
		Kind: actor.KindProc, Status: string(actor.Stopping), Step: agent.StepMoveAttempt, Reason: l.reason, Mesh: m.ID.String(), Rank: base, Gen: l.gen,
		ProcIndex: int(id.Index), Host: l.host.String(), At: time.Now(),
	})
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, c.stopLimit(s.Grace))
		defer cancel()
		owners := actorOwners(work, p, id, self)
		err := cmp.Or(err, whole, p.Bus().Control().Flush(work))
		if err == nil {
			var o agent.Overlay
			o, err = agent.Stop.Urge(work, hostAgent(p, l.host), s)
			o.Each(m.Extent.NumRanks(), func(rank int, s agent.Status) {
				if rank == base && err == nil && !s.Phase.Terminal() {
					err = fmt.Errorf("it is still %s", s)
				}
			})
		}
		return func(ctx *actor.Context) {
			if !c.checkFenced(ctx, err) {
				c.handle(ctx, departed{l, owners, err})
			}
		}
	})
}

// ownersTimeout bounds the wait for a moving proc to list its actors' owners. Actors of a silent
// proc do not follow.
const ownersTimeout = 2 * time.Second

// actorOwners are the owners of the actors in a proc, but for one.
func actorOwners(ctx context.Context, p *actor.Proc, id subjects.ProcID, but subjects.ActorID) (owners []subjects.ActorID) {
	ctx, cancel := context.WithTimeout(ctx, ownersTimeout)
	defer cancel()
	states, _ := agent.Get.Call(ctx, agent.Of(id).Via(p), agent.GetRequest{})
	for _, s := range states {
		if s.Claim == nil || s.Status.Phase.Terminal() {
			continue
		}
		if o := s.Claim.Owner; o.IsValid() && o != but && !slices.Contains(owners, o) {
			owners = append(owners, o)
		}
	}
	return owners
}

// awaitActors waits until the actors of a migrated rank run, or never will. It does not wait longer
// than actors wait for their procs.
func (c *controller) awaitActors(ctx *actor.Context, f actorWait) {
	p, mesh := ctx.Proc(), c.spec.Procs.ID
	base, err := c.spec.Region.BaseRank(f.rank)
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, c.procTimeout)
		defer cancel()
		var wg sync.WaitGroup
		for _, owner := range f.owners {
			wg.Go(func() {
				if err == nil { // an owner that is gone starts none
					_, _ = agent.AwaitActor.Call(work, actor.RefOf[agent.Agent](owner).Via(p), agent.AwaitActorRequest{Mesh: mesh, Rank: base, Gen: f.gen})
				}
			})
		}
		wg.Wait()
		return func(ctx *actor.Context) { c.handle(ctx, actorsUp{f.rank, f.gen}) }
	})
}

// singleRank is the region of one rank.
func singleRank(e shape.Extent, base int) (shape.Region, error) {
	r := e.Region()
	p, err := e.Point(base)
	for _, d := range e.Dims() {
		if i, ok := p.Coord(d.Label); ok && err == nil {
			r, err = r.Slice(d.Label, i, i+1)
		}
	}
	return r, err
}
