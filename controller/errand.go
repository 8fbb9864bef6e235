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

// A rank that is well may be sent on an errand: it ends where it is, and is started as its next generation, elsewhere
// or in the same place. The errand is over when it runs there, and so do the actors that it had, as far as their owners
// start them again.

// errand is why a rank is on its way.
type errand uint8

const (
	none  errand = iota
	moves        // its host is emptied, or its proc goes elsewhere
	rolls        // it is started anew in its place
)

// String is what it does.
func (e errand) String() string {
	if e == rolls {
		return "restarts"
	}
	return "moves"
}

// steps are the names of its beginning and its ends.
func (e errand) steps() (attempt, success, failed string) {
	if e == rolls {
		return "rank.roll.attempt", "rank.roll.success", "rank.roll.failed"
	}
	return "rank.move.attempt", "rank.move.success", "rank.move.failed"
}

// leave is a rank to be stopped where it is, in the generation that it has there.
type leave struct {
	rank, gen int
	host      subjects.HostID
	grace     time.Duration
	errand    errand
	reason    string
}

// left is that a rank has ended where it was, and whose actors it had.
type left struct {
	leave
	owners []subjects.ActorID
	err    error
}

// follow is a rank that runs where it went to, whose actors may not yet.
type follow struct {
	rank, gen int
	owners    []subjects.ActorID
}

// followed is that its actors run there, or will not.
type followed struct{ rank, gen int }

// setOff has a rank of procs leave the place where it is.
func (st *state) setOff(x *effects, rank int, e errand, grace time.Duration, reason string, now time.Time) {
	host, gen := st.at(rank), st.table.Gen(st.spec.id(), rank)
	st.setOut(x, rank, e, reason, leaving, now)
	x.leaves = append(x.leaves, leave{rank, gen, host, grace, e, reason})
}

// setOut has a rank on its way: it is told, and counts as no restart.
func (st *state) setOut(x *effects, rank int, e errand, reason string, doing doing, now time.Time) {
	st.forget(rank)
	seat := st.seat(rank)
	seat.doing, seat.errand, seat.from, seat.owners = doing, e, subjects.HostID{}, nil
	seat.cause = actor.Event{Reason: reason}
	st.table.Again(st.spec.id(), rank, st.table.Gen(st.spec.id(), rank)+1, e.String()+": "+reason)
	attempt, _, _ := e.steps()
	x.news = append(x.news, st.about(rank, string(actor.Initializing), actor.Event{Step: attempt, Reason: reason, At: now}))
}

// arrived notes that a rank is no longer on its way: from now on its failures count.
func (st *state) arrived(rank int) {
	st.seat(rank).errand = none
	if st.restart != nil {
		st.restart.Started(rank, st.spec.Policy.intensity())
	}
}

// left starts a rank in its new place once it has ended in the old one.
func (st *state) left(x *effects, h left, now time.Time) {
	seat := st.known(h.rank)
	switch {
	case seat.doing != leaving || st.table.Gen(st.spec.id(), h.rank) != h.gen+1:
	case h.err != nil:
		reason := "it did not end where it was: " + h.err.Error()
		st.advance(x, h.rank, agent.Status{Phase: agent.Failed, Reason: reason}, actor.Event{Reason: reason, At: now}, now)
	default:
		st.seat(h.rank).owners = h.owners
		st.start(x, h.rank)
	}
}

// followed notes that the errand of a rank is over.
func (st *state) followed(h followed) {
	if seat := st.seats[h.rank]; seat != nil && seat.follows == h.gen {
		seat.follows = 0
	}
}

// movesWith notes that the proc of an actor goes elsewhere: the actor waits for it there.
func (st *state) movesWith(x *effects, rank int, e actor.Event, now time.Time) {
	seat := st.seat(rank)
	if st.stopping || st.restart == nil || !st.restart.Has(rank) || st.phaseOf(rank) != agent.Running || seat.doing != settled {
		return
	}
	st.setOut(x, rank, moves, "its proc moves: "+e.Reason, held, now)
	seat.proc, seat.dead, seat.until = e.Gen, true, now.Add(st.heldFor)
}

// leave stops a rank where it is. Who has its actors knows before that it is to move.
func (c *controller) leave(ctx *actor.Context, l leave) {
	p, m := ctx.Proc(), c.spec.Procs
	base, err := c.spec.Region.BaseRank(l.rank)
	part, whole := only(m.Extent, base)
	s := agent.Stopping{ID: c.spec.id(), Reason: l.errand.String() + ": " + l.reason, Grace: cmp.Or(max(l.grace, 0), c.stopGrace()), Region: &part, Claim: c.spec.claim()}
	id, self := m.Proc(base, l.gen), ctx.Self()
	p.Emit(actor.Event{
		Kind: actor.KindProc, Status: string(actor.Stopping), Step: agent.Moving, Reason: l.reason, Mesh: m.ID.String(), Rank: base, Gen: l.gen,
		Seat: int(id.Seat), Host: l.host.String(), At: time.Now(),
	})
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, c.stopLimit(s.Grace))
		defer cancel()
		owners := ownersIn(work, p, id, self)
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
			if !c.refused(ctx, err) {
				c.hear(ctx, left{l, owners, err})
			}
		}
	})
}

// ownersWithin is how long a proc that is to move has to say whose actors it has; of one that does not, none follow.
const ownersWithin = 2 * time.Second

// ownersIn are the owners of the actors in a proc, but for one.
func ownersIn(ctx context.Context, p *actor.Proc, id subjects.ProcID, but subjects.ActorID) (owners []subjects.ActorID) {
	ctx, cancel := context.WithTimeout(ctx, ownersWithin)
	defer cancel()
	states, _ := agent.Get.Call(ctx, agent.Of(id).Via(p), agent.Query{})
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

// await waits until the actors of a rank run where it went to, or will not; those that need longer than actors wait
// for their procs are not waited for.
func (c *controller) await(ctx *actor.Context, f follow) {
	p, mesh := ctx.Proc(), c.spec.Procs.ID
	base, err := c.spec.Region.BaseRank(f.rank)
	ctx.Go(func(work context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(work, c.heldFor)
		defer cancel()
		var wg sync.WaitGroup
		for _, owner := range f.owners {
			wg.Go(func() {
				if err == nil { // an owner that is gone starts none
					_, _ = agent.Arrive.Call(work, actor.RefOf[agent.Agent](owner).Via(p), agent.Arriving{Mesh: mesh, Rank: base, Gen: f.gen})
				}
			})
		}
		wg.Wait()
		return func(ctx *actor.Context) { c.hear(ctx, followed{f.rank, f.gen}) }
	})
}

// only is the region of one rank.
func only(e shape.Extent, base int) (shape.Region, error) {
	r := e.Region()
	p, err := e.Point(base)
	for _, d := range e.Dims() {
		if i, ok := p.Coord(d.Label); ok && err == nil {
			r, err = r.Slice(d.Label, i, i+1)
		}
	}
	return r, err
}
