package controller

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// A healthy rank may migrate: it ends in its place and starts as its next generation, elsewhere or
// in the same place. The migration is over when the rank runs there with those of its actors that
// their owners restart.

// migration is the reason why a rank migrates.
type migration uint8

const (
	notMigrating   migration = iota
	relocation               // its host is drained, or its proc moves
	inPlaceRestart           // a requested restart in its place
)

// String names the action.
func (e migration) String() string {
	if e == inPlaceRestart {
		return "restarts"
	}
	return "moves"
}

// stepNames returns the event steps of a migration.
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
	silent error // set: its proc did not list its actors
	err    error
}

// actorWait is a migrated rank whose actors have yet to start.
type actorWait struct {
	rank, gen int
	owners    []subjects.ActorID
}

// actorsUp reports that the actors of a migrated rank run, or never will.
type actorsUp struct{ rank, gen int }

// beginMove starts the migration of a rank of procs.
func (st *state) beginMove(
	x *effects, rank int, e migration, grace time.Duration, reason string, now time.Time,
) {
	host := st.hostOf(rank)
	gen := st.table.Gen(st.spec.id(), rank)
	st.beginMigration(x, rank, e, reason, departing, now)
	x.departures = append(x.departures, departure{rank, gen, host, grace, e, reason})
}

// beginMigration records and reports the start of a migration. It does not count as a restart.
func (st *state) beginMigration(
	x *effects, rank int, e migration, reason string, doing restartPhase, now time.Time,
) {
	st.stopSupervising(rank)
	seat := st.rankState(rank)
	seat.phase = doing
	seat.migration = e
	seat.oldHost = subjects.HostID{}
	seat.owners = nil
	seat.unawaited = ""
	seat.cause = actor.Event{Reason: reason}
	st.table.BeginGeneration(st.spec.id(), rank, st.table.Gen(st.spec.id(), rank)+1, e.String()+": "+reason)
	attempt, _, _ := e.stepNames()
	about := actor.Event{Step: attempt, Reason: reason, At: now}
	st.report(x, rank, string(actor.Initializing), about)
}

// endMigration ends the migration of a rank. From then on its failures count.
func (st *state) endMigration(rank int) {
	st.rankState(rank).migration = notMigrating
	if st.supervisor != nil {
		st.supervisor.Started(rank, st.spec.RestartPolicy.intensity())
	}
}

// handleDeparted starts a rank in its new place once it has ended in the old one.
func (st *state) handleDeparted(x *effects, h departed, now time.Time) {
	seat := st.peek(h.rank)
	switch {
	case seat.phase != departing || st.table.Gen(st.spec.id(), h.rank) != h.gen+1:
	case h.err != nil:
		reason := "it did not stop on its old host: " + h.err.Error()
		about := actor.Event{Reason: reason, At: now}
		st.advance(x, h.rank, agent.Status{Phase: agent.Failed, Reason: reason}, about, now)
	default:
		st.rankState(h.rank).owners = h.owners
		if h.silent != nil {
			st.rankState(h.rank).unawaited = "its actors are not awaited: its proc did not list them: " +
				h.silent.Error()
		}
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
	if st.stopping || st.supervisor == nil || !st.supervisor.Has(rank) {
		return
	}
	if st.phaseOf(rank) != agent.Running || seat.phase != stable {
		return
	}
	st.beginMigration(x, rank, relocation, "its proc moves: "+e.Reason, awaitingProc, now)
	seat.procGen = e.Gen
	seat.procEnded = true
	seat.waitUntil = now.Add(st.procTimeout)
}

// stopForMove stops a rank in its old place, after an event that announces the move to the owners
// of its actors.
func (c *controller) stopForMove(ctx *actor.Context, l departure) {
	p := ctx.Proc()
	m := c.spec.Procs
	base, err := c.spec.Region.BaseRank(l.rank)
	part, whole := m.Extent.Region().Single(base)
	s := agent.StopRequest{
		ID: c.spec.id(), Reason: l.migration.String() + ": " + l.reason,
		Grace: cmp.Or(max(l.grace, 0), c.stopGrace()), Region: &part, Claim: c.spec.claim(),
	}
	id := m.ProcID(base, l.gen)
	self := ctx.Self()
	p.Emit(actor.Event{
		Kind: actor.KindProc, Status: string(actor.Stopping), Step: agent.StepMoveAttempt, Reason: l.reason,
		Mesh: m.ID.String(), Rank: base, Gen: l.gen, ProcIndex: int(id.Index), Host: l.host.String(),
		At: time.Now(),
	})
	limit := c.stopLimit(s.Grace)
	ctx.Go(func(work context.Context) func(*actor.Context) {
		owners, silent := actorOwners(work, p, id, self, limit-s.Grace)
		err := cmp.Or(err, whole)
		for isOver := err != nil; !isOver; {
			isOver, err = stopRank(work, p, hostAgent(p, l.host), s, base, limit)
		}
		return func(ctx *actor.Context) {
			if !c.checkFenced(ctx, err) {
				c.handle(ctx, departed{l, owners, silent, err})
			}
		}
	})
}

// stopRank asks a host to stop a rank. It returns false if the host answers that the rank still
// runs: the host ends it (HOST-5), and its next generation has to wait.
func stopRank(ctx context.Context, p *actor.Proc, host actor.Ref[agent.Agent], s agent.StopRequest, rank int,
	limit time.Duration) (isOver bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := p.Bus().Control().Flush(ctx); err != nil {
		return true, err
	}
	o, err := stopOn(ctx, host, s)
	isOver = true
	o.Each(rank+1, func(at int, s agent.Status) {
		if at == rank && !s.Phase.Terminal() {
			isOver = err != nil
		}
	})
	return isOver, err
}

// actorOwners returns the owners of the actors in a proc, except one. The error means that the proc
// was silent for limit.
func actorOwners(
	ctx context.Context, p *actor.Proc, id subjects.ProcID, but subjects.ActorID, limit time.Duration,
) ([]subjects.ActorID, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	states, err := repeated(func() ([]agent.State, error) {
		return agent.Get.Call(ctx, agent.Of(id).Via(p), agent.GetRequest{})
	})
	if isDefinite(err) {
		err = nil // the proc has ended
	}
	return appendOwners(nil, states, but), err
}

// appendOwners appends the owners of live actors, each once, except one.
func appendOwners(owners []subjects.ActorID, states []agent.State, but subjects.ActorID) []subjects.ActorID {
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

// awaitActors waits until the actors of a migrated rank run, or never will. It waits at most
// supervision.restart-wait.
func (c *controller) awaitActors(ctx *actor.Context, f actorWait) {
	p := ctx.Proc()
	mesh := c.spec.Procs.ID
	base, err := c.spec.Region.BaseRank(f.rank)
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, c.procTimeout)
		defer cancel()
		var wg sync.WaitGroup
		for _, owner := range f.owners {
			wg.Go(func() {
				if err == nil {
					request := agent.AwaitActorRequest{Mesh: mesh, Rank: base, Gen: f.gen}
					// An error means that the owner is gone, and starts no actors.
					_, _ = agent.AwaitActor.Call(work, actor.RefOf[agent.Agent](owner).Via(p), request)
				}
			})
		}
		wg.Wait()
		return func(ctx *actor.Context) { c.handle(ctx, actorsUp{f.rank, f.gen}) }
	})
}
