package controller

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/internal/supervise"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// verdict is that a rank has failed for good, and what was tried.
type verdict struct{ gaveUp string }

// recovers decides about a rank that has failed. nil: it is started again (CTL-6).
func (st *state) recovers(x *effects, rank int, reason string, about actor.Event, now time.Time) *verdict {
	if seat := st.known(rank); seat.errand != none && !st.stopping && st.restart != nil {
		st.arrived(rank)
		st.seat(rank).doing = settled
	}
	if st.restart == nil || st.stopping || !st.restart.Has(rank) || st.neverRan(rank) {
		return &verdict{}
	}
	seat := st.seat(rank)
	if seat.doing == waiting || seat.doing == held {
		return nil
	}
	seat.nth, seat.from = max(seat.nth+1, about.Nth+1), subjects.HostID{}
	var fx []supervise.Effect[int]
	if seat.doing == starting {
		fx = st.restart.StartFailed(rank, now)
	} else {
		fx = st.restart.Ended(rank, supervise.Failed, now)
	}
	for _, f := range fx {
		if e, gaveUp := f.(supervise.Escalate[int]); gaveUp {
			st.apply(x, fx, now) // there may be others to be started
			return &verdict{"; not started again: " + e.Reason}
		}
	}
	seat.doing, seat.cause = waiting, about
	seat.tries++
	st.table.Again(st.spec.id(), rank, st.table.Gen(st.spec.id(), rank)+1, "starts again: "+reason)
	about.Reason, about.Step = reason, "rank.restart.attempt"
	x.news = append(x.news, st.about(rank, string(actor.Initializing), about))
	st.apply(x, fx, now)
	return nil
}

// neverRan reports whether a rank has not come up so far.
func (st *state) neverRan(rank int) bool {
	return st.phaseOf(rank) == agent.Initializing && st.table.Gen(st.spec.id(), rank) == 0
}

// apply does what the one who counts restarts says.
func (st *state) apply(x *effects, fx []supervise.Effect[int], now time.Time) {
	for _, f := range fx {
		switch f := f.(type) {
		case supervise.Wait[int]:
			if x.wake.IsZero() || f.Until.Before(x.wake) {
				x.wake = f.Until
			}
		case supervise.Start[int]:
			st.begin(x, f.Key, now)
		}
	}
}

// begin starts a rank anew, once its proc is there.
func (st *state) begin(x *effects, rank int, now time.Time) {
	if seat := st.seat(rank); seat.dead {
		seat.doing, seat.until = held, now.Add(st.heldFor)
		return
	}
	st.start(x, rank)
}

func (st *state) start(x *effects, rank int) {
	st.seat(rank).doing = starting
	x.starts = append(x.starts, start{rank, st.table.Gen(st.spec.id(), rank)})
}

// settle notes that a restart is over, and that what was asked before says nothing of what is there now.
func (st *state) settle(x *effects, rank int, now time.Time) {
	seat := st.seat(rank)
	seat.doing, seat.since, seat.until = settled, st.ask(), time.Time{}
	if seat.errand != none {
		st.arrived(rank)
		return
	}
	st.apply(x, st.restart.Restarted(rank, rank, now), now)
}

// forget tells the one who counts restarts that a rank is none of its business any more. What it may answer is
// when to wake for others, and that is no sooner than it has said already.
func (st *state) forget(rank int) {
	if st.restart != nil {
		st.restart.Ended(rank, supervise.Asked, time.Time{})
	}
	if seat := st.seats[rank]; seat != nil {
		seat.doing, seat.until, seat.errand = settled, time.Time{}, none
		seat.follows = 0
	}
}

// startedAnew takes what became of starting ranks.
func (st *state) startedAnew(x *effects, h started, now time.Time) {
	if st.stopping { // the stop may have come before them
		for _, s := range h.starts {
			if host, _ := st.host(s.rank); host >= 0 {
				x.strays = append(x.strays, st.spec.Procs.Hosts[host])
			}
		}
		x.strays = slices.Compact(x.strays)
		return
	}
	said := map[int]agent.Status{}
	h.overlay.Each(st.spec.Region.NumRanks(), func(rank int, s agent.Status) { said[rank] = s })
	for _, s := range h.starts {
		if st.known(s.rank).doing != starting || st.table.Gen(st.spec.id(), s.rank) != s.gen {
			continue // an event has told already
		}
		switch got := said[s.rank]; {
		case h.err == nil && got.Phase == agent.Running:
			st.running(x, s.rank, now)
		case h.err == nil && got.Phase == agent.Initializing: // its host will say more
		default:
			reason := "starting it again: " + got.Reason
			if h.err != nil {
				reason = "starting it again: " + h.err.Error()
			}
			st.advance(x, s.rank, agent.Status{Phase: agent.Failed, Reason: reason}, actor.Event{Reason: reason, At: now}, now)
		}
	}
}

// dueNow starts those whose backoff is over, and gives up those whose proc has not come back.
func (st *state) dueNow(x *effects, now time.Time) {
	if st.restart == nil || st.stopping {
		return
	}
	st.apply(x, st.restart.Due(now), now)
	for _, rank := range slices.Sorted(maps.Keys(st.seats)) {
		if seat := st.seats[rank]; seat.doing == held && !now.Before(seat.until) {
			reason := fmt.Sprintf("its proc has not come back within %s: %s", st.heldFor, seat.cause.Reason)
			cause := seat.cause
			cause.At = now
			st.end(x, rank, agent.Status{Phase: agent.Failed, Reason: reason}, cause)
		}
	}
}

// stop notes that the mesh is to end: what waits to be started again does not.
func (st *state) stop(x *effects, reason string, now time.Time) {
	if st.stopping || st.fenced != nil {
		return
	}
	st.stopping = true
	if st.restart != nil {
		st.restart.Stopping()
	}
	for _, rank := range slices.Sorted(maps.Keys(st.seats)) {
		if d := st.seats[rank].doing; d == waiting || d == held || d == leaving {
			st.advance(x, rank, agent.Status{Phase: agent.Stopped, Reason: reason}, actor.Event{Reason: reason, At: now}, now)
		}
	}
	for rank := range st.spec.Region.NumRanks() {
		st.stops(rank, reason)
	}
}

// stops notes that a rank that runs is to end. One that is not there yet may never know of it: its agent says.
func (st *state) stops(rank int, reason string) {
	if st.phaseOf(rank) == agent.Running {
		st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.ShuttingDown, Reason: reason})
	}
}

// stopPart notes that the ranks of a region are to end: they are not started again.
func (st *state) stopPart(x *effects, part shape.Region, reason string, now time.Time) {
	for _, base := range part.Ranks() {
		rank, in := st.spec.Region.ViewRank(base)
		if !in {
			continue
		}
		if d := st.known(rank).doing; d == waiting || d == held || d == leaving {
			st.end(x, rank, agent.Status{Phase: agent.Stopped, Reason: reason}, actor.Event{Reason: reason, At: now})
		}
		st.forget(rank)
		st.stops(rank, reason)
	}
}

// hostIs takes what is known of a host. Only its death changes a rank (CTL-5); everything else is said of
// them.
func (st *state) hostIs(x *effects, h hostIs, now time.Time) {
	index := slices.Index(st.spec.Procs.Hosts, h.Host)
	unstopped := st.stopping && st.spec.Procs.Keep && st.hosts[h.Host].State == presence.Dead
	if st.isNow(h); h.State == presence.Alive {
		delete(st.deserted, h.Host)
		if st.gone[h.Host] || unstopped {
			delete(st.gone, h.Host)
			x.strays = append(x.strays, h.Host)
		}
	}
	switch m := st.moving[h.Host]; {
	case m != nil && h.State == presence.Dead:
		st.deadBehind(x, m, h, now)
	case index < 0:
	case h.State == presence.Dead:
		st.hostDied(x, index, h, now)
	default:
		reason := ""
		if h.State != presence.Alive {
			reason = fmt.Sprintf("its host %s is %s: %s", h.Host.Label(), h.State, h.Reason)
		}
		for _, rank := range st.ranksOn(index) {
			if st.table.Status(st.spec.id(), rank).Phase == agent.Running {
				st.describe(rank, reason)
			}
		}
	}
}

// hostDied ends what a dead host had. Nobody but the controller of the procs can tell of it.
func (st *state) hostDied(x *effects, index int, h hostIs, now time.Time) {
	if st.spec.Actors != nil {
		return // the events of the procs tell
	}
	if st.outlive(x, index, h) {
		return
	}
	st.gone[h.Host] = true
	reason := fmt.Sprintf("host %s is dead: %s", h.Host.Label(), h.Reason)
	e := actor.Event{Status: string(actor.Failed), Reason: reason, Host: h.Host.String(), At: h.At, Step: "proc.exit.unknown"}
	ranks := st.ranksOn(index)
	x.lost = st.lostWith(ranks, e)
	st.replace(index)
	for _, rank := range ranks {
		switch {
		case st.spec.Procs.Hosts[index] != h.Host:
			st.advance(x, rank, agent.Status{Phase: agent.Failed, Reason: reason}, e, now)
		case st.restart != nil: // nobody is to start it again there
			st.end(x, rank, agent.Status{Phase: agent.Failed, Reason: reason + "; not started again: there is no spare host"}, e)
		default:
			st.end(x, rank, agent.Status{Phase: agent.Failed, Reason: reason}, e)
		}
	}
}

// lostWith are the ends of the procs that were on a dead host, neighbours of one generation in one event.
func (st *state) lostWith(ranks []int, e actor.Event) (all []actor.Event) {
	e.Kind, e.Mesh, e.PerProcess = actor.KindProc, st.spec.Procs.ID.String(), st.spec.Procs.PerProcess
	for _, rank := range ranks {
		doing := st.known(rank).doing
		if st.table.Status(st.spec.id(), rank).Phase.Terminal() || doing == waiting || doing == held {
			continue
		}
		_, e.Rank = st.host(rank)
		e.Gen, e.Count = st.table.Gen(st.spec.id(), rank), 1
		if doing == leaving { // it is the one before that is lost
			e.Gen--
		}
		e.Seat = int(st.spec.Procs.Proc(e.Rank, e.Gen).Seat)
		if n := len(all) - 1; n >= 0 && all[n].Gen == e.Gen && all[n].Rank+all[n].Count == e.Rank {
			all[n].Count++
			continue
		}
		all = append(all, e)
	}
	return all
}
