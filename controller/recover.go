package controller

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/supervise"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// permanentFailure reports that a rank has failed for good. gaveUp is the reason against a restart.
type permanentFailure struct{ gaveUp string }

// decideRecovery decides about a failed rank. nil means that it restarts (CTL-6).
func (st *state) decideRecovery(
	x *effects, rank int, reason string, about actor.Event, now time.Time,
) *permanentFailure {
	if seat := st.peek(rank); seat.migration != notMigrating && !st.stopping && st.supervisor != nil {
		st.endMigration(rank)
		st.rankState(rank).phase = stable
	}
	if st.supervisor == nil || st.stopping || !st.supervisor.Has(rank) || st.neverRan(rank) {
		return &permanentFailure{}
	}
	seat := st.rankState(rank)
	if seat.phase == backoff || seat.phase == awaitingProc {
		return nil
	}
	seat.minEvent = max(seat.minEvent+1, about.Nth+1)
	seat.oldHost = subjects.HostID{}
	var fx []supervise.Effect
	if seat.phase == starting {
		fx = st.supervisor.StartFailed(rank, now)
	} else {
		fx = st.supervisor.Ended(rank, supervise.Failed, now)
	}
	for _, f := range fx {
		if e, gaveUp := f.(supervise.Escalate); gaveUp {
			st.apply(x, fx, now) // fx may start other ranks
			return &permanentFailure{"; not restarted: " + e.Reason}
		}
	}
	seat.phase = backoff
	seat.cause = about
	seat.restarts++
	st.table.BeginGeneration(st.spec.id(), rank, st.table.Gen(st.spec.id(), rank)+1, "restarts: "+reason)
	about.Reason = reason
	about.Step = "rank.restart.attempt"
	st.report(x, rank, string(actor.Initializing), about)
	st.apply(x, fx, now)
	return nil
}

// neverRan reports whether a rank has never run.
func (st *state) neverRan(rank int) bool {
	return st.phaseOf(rank) == agent.Initializing && st.table.Gen(st.spec.id(), rank) == st.peek(rank).firstGen
}

// apply runs the effects of the supervisor.
func (st *state) apply(x *effects, fx []supervise.Effect, now time.Time) {
	for _, f := range fx {
		switch f := f.(type) {
		case supervise.SetTimer:
			if x.wake.IsZero() || f.Until.Before(x.wake) {
				x.wake = f.Until
			}
		case supervise.Start:
			st.startWhenReady(x, f.Key.(int), now)
		}
	}
}

// startWhenReady restarts a rank once its proc runs.
func (st *state) startWhenReady(x *effects, rank int, now time.Time) {
	if seat := st.rankState(rank); seat.procEnded {
		seat.phase = awaitingProc
		seat.waitUntil = now.Add(st.procTimeout)
		return
	}
	st.startRank(x, rank)
}

func (st *state) startRank(x *effects, rank int) {
	st.rankState(rank).phase = starting
	x.starts = append(x.starts, rankStart{rank, st.table.Gen(st.spec.id(), rank)})
}

// endRestart ends a restart, and invalidates replies to earlier requests.
func (st *state) endRestart(x *effects, rank int, now time.Time) {
	seat := st.rankState(rank)
	seat.phase = stable
	seat.validFrom = st.nextSerial()
	seat.waitUntil = time.Time{}
	if seat.migration != notMigrating {
		st.endMigration(rank)
		return
	}
	st.apply(x, st.supervisor.Restarted(rank, rank, now), now)
}

// stopSupervising removes a rank from the supervisor. The supervisor may return a wake time for
// other ranks, never earlier than its last one.
func (st *state) stopSupervising(rank int) {
	if st.supervisor != nil {
		st.supervisor.Ended(rank, supervise.Requested, time.Time{})
	}
	if seat := st.rankStates[rank]; seat != nil {
		seat.phase = stable
		seat.waitUntil = time.Time{}
		seat.migration = notMigrating
		seat.actorWaitGen = 0
	}
}

// handleStartResult applies the result of starting ranks.
func (st *state) handleStartResult(x *effects, h startResult, now time.Time) {
	if st.stopping { // the stop may have reached the host before the start
		for _, s := range h.starts {
			if host, _ := st.hostIndex(s.rank); host >= 0 {
				x.staleHosts = append(x.staleHosts, st.spec.Procs.Hosts[host])
			}
		}
		x.staleHosts = slices.Compact(x.staleHosts)
		return
	}
	said := map[int]agent.Status{}
	h.overlay.Each(st.spec.Region.NumRanks(), func(rank int, s agent.Status) { said[rank] = s })
	for _, s := range h.starts {
		got := said[s.rank]
		seat := st.peek(s.rank)
		if seat.phase != starting || st.table.Gen(st.spec.id(), s.rank) != s.gen {
			runs := h.err != nil || !got.Phase.Terminal()
			if runs && seat.stopRequested && s.rank < st.description().Extent.NumRanks() {
				x.lateStarts = append(x.lateStarts, s.rank)
			}
			continue // an event has decided
		}
		switch {
		case h.err == nil && got.Phase == agent.Running:
			st.markRunning(x, s.rank, now)
		case h.err == nil && got.Phase == agent.Initializing: // an event of its host follows
		default:
			reason := "cannot restart it: " + got.Reason
			if h.err != nil {
				reason = "cannot restart it: " + h.err.Error()
			}
			about := actor.Event{Reason: reason, At: now}
			st.advance(x, s.rank, agent.Status{Phase: agent.Failed, Reason: reason}, about, now)
		}
	}
}

// handleTimer starts ranks whose backoff is over, and ends ranks whose proc did not restart in
// time.
func (st *state) handleTimer(x *effects, now time.Time) {
	st.endReportedFailures(x, now)
	if st.supervisor == nil || st.stopping {
		return
	}
	st.apply(x, st.supervisor.OnTimer(now), now)
	for _, rank := range slices.Sorted(maps.Keys(st.rankStates)) {
		if seat := st.rankStates[rank]; seat.phase == awaitingProc && !now.Before(seat.waitUntil) {
			reason := fmt.Sprintf("the proc did not restart within %s: %s", st.procTimeout, seat.cause.Reason)
			cause := seat.cause
			cause.At = now
			st.endRank(x, rank, agent.Status{Phase: agent.Failed, Reason: reason}, cause)
		}
	}
}

// stopMesh marks the mesh as stopping; pending restarts are dropped.
func (st *state) stopMesh(x *effects, reason string, now time.Time) {
	if st.stopping || st.fenced != nil {
		return
	}
	st.stopping = true
	if st.supervisor != nil {
		st.supervisor.Stopping()
	}
	st.stopWaiting(x, slices.Sorted(maps.Keys(st.rankStates)), reason, now)
	for rank := range st.spec.Region.NumRanks() {
		st.markStopping(rank, reason)
	}
}

// stopWaiting ends ranks before their restart. No agent knows their next generations.
func (st *state) stopWaiting(x *effects, ranks []int, reason string, now time.Time) {
	for _, rank := range ranks {
		if d := st.peek(rank).phase; d == backoff || d == awaitingProc || d == departing {
			about := actor.Event{Reason: reason, At: now}
			st.endRank(x, rank, agent.Status{Phase: agent.Stopped, Reason: reason}, about)
		}
	}
}

// markStopping marks a running rank as stopping. For other ranks it waits for the agents' reports:
// they may never get the stop.
func (r *meshRecord) markStopping(rank int, reason string) {
	if r.phaseOf(rank) == agent.Running {
		r.table.Advance(r.spec.id(), rank, agent.Status{Phase: agent.ShuttingDown, Reason: reason})
	}
}

// stopRegion marks the ranks of a region as stopping: they do not restart.
func (st *state) stopRegion(x *effects, part shape.Region, reason string, now time.Time) {
	for _, base := range part.Ranks() {
		rank, in := st.spec.Region.ViewRank(base)
		if !in {
			continue
		}
		st.stopWaiting(x, []int{rank}, reason, now)
		st.stopSupervising(rank)
		st.rankState(rank).stopRequested = true
		st.markStopping(rank, reason)
	}
}

// handleHostChange applies a change of a host. Only its death changes a rank (CTL-8); other changes
// are only reported.
func (st *state) handleHostChange(x *effects, h hostChange, now time.Time) {
	index := slices.Index(st.spec.Procs.Hosts, h.Host)
	unstopped := st.stopping && st.spec.Procs.Keep && st.hosts[h.Host].State == presence.Dead
	st.noteHost(h)
	if h.State == presence.Alive {
		delete(st.withoutOrphans, h.Host)
		stops, died := st.diedHosts[h.Host]
		if died && !stops || unstopped {
			st.diedHosts[h.Host] = true
			x.staleHosts = append(x.staleHosts, h.Host)
		}
		if st.spec.Actors == nil && h.Incarnation != 0 && h.Incarnation != st.incarnations[h.Host] {
			st.incarnations[h.Host] = h.Incarnation
			x.newHostds = append(x.newHostds, h.Host)
		}
	}
	switch m := st.evacuations[h.Host]; {
	case m != nil && h.State == presence.Dead:
		st.handleEvacuatedDeath(x, m, h, now)
	case index < 0:
	case h.State == presence.Dead:
		st.endRanksOn(x, index, h, now)
	default:
		reason := ""
		if h.State != presence.Alive {
			reason = fmt.Sprintf("its host %s is %s: %s", h.Host.Label(), h.State, h.Reason)
		}
		for _, rank := range st.ranksOn(index) {
			if st.phaseOf(rank) == agent.Running {
				st.setReason(rank, reason)
			}
		}
	}
}

// staleStopped is the result of the stop of a returned host's procs.
type staleStopped struct {
	host subjects.HostID
	err  error
}

// handleStaleStopped lets the mesh use the host again. After an error the stop is due again.
func (st *state) handleStaleStopped(h staleStopped) {
	if _, died := st.diedHosts[h.host]; !died {
		return
	}
	if h.err == nil {
		delete(st.diedHosts, h.host)
	} else {
		st.diedHosts[h.host] = false
	}
}

// retryStaleStops repeats the unanswered stops of returned hosts, with each renewal of leases.
func (st *state) retryStaleStops(x *effects) {
	for _, host := range slices.SortedFunc(maps.Keys(st.diedHosts), compareHosts) {
		if !st.diedHosts[host] && st.hosts[host].State != presence.Dead {
			st.diedHosts[host] = true
			x.staleHosts = append(x.staleHosts, host)
		}
	}
}

// endRanksOn ends the ranks of a dead host. Only the controller of the procs can report these ends.
func (st *state) endRanksOn(x *effects, index int, h hostChange, now time.Time) {
	if st.spec.Actors != nil {
		return // the events of the procs end the actors
	}
	if st.procsMayOutlive(x, index, h) {
		return
	}
	st.diedHosts[h.Host] = false
	reason := fmt.Sprintf("host %s is dead: %s", h.Host.Label(), h.Reason)
	e := lostProcEvent(h.Host, reason, h.At)
	ranks := st.ranksAt(h.Host, index)
	x.procEnds = st.procEnds(ranks, e)
	isReplaced := st.replaceHost(index)
	if !isReplaced {
		st.returnToEvacuated(x, index)
	}
	for _, rank := range ranks {
		switch {
		case isReplaced:
			st.advance(x, rank, agent.Status{Phase: agent.Failed, Reason: reason}, e, now)
		case st.supervisor != nil:
			s := agent.Status{Phase: agent.Failed, Reason: reason + "; not restarted: no spare host"}
			st.endRank(x, rank, s, e)
		default:
			st.endRank(x, rank, agent.Status{Phase: agent.Failed, Reason: reason}, e)
		}
	}
}

// lostProcEvent is the end of a proc that was lost with its hostd.
func lostProcEvent(host subjects.HostID, reason string, at time.Time) actor.Event {
	return actor.Event{
		Status: string(actor.Failed), Reason: reason, Host: host.String(), At: at, Step: "proc.exit.unknown",
	}
}

// procEnds returns the ends of lost procs, one event for adjacent ranks of one generation.
func (st *state) procEnds(ranks []int, e actor.Event) (all []actor.Event) {
	e.Kind = actor.KindProc
	e.Mesh = st.spec.Procs.ID.String()
	e.PerProcess = st.spec.Procs.PerProcess
	for _, rank := range ranks {
		doing := st.peek(rank).phase
		if st.phaseOf(rank).Terminal() || doing == backoff || doing == awaitingProc {
			continue
		}
		_, e.Rank = st.hostIndex(rank)
		e.Count = 1
		e.Gen = st.table.Gen(st.spec.id(), rank)
		if doing == departing { // the host has the former generation
			e.Gen--
		}
		e.ProcIndex = int(st.spec.Procs.ProcID(e.Rank, e.Gen).Index)
		all = append(all, e)
	}
	return agent.JoinRuns(all)
}
