package controller

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// step applies one event and returns its effects. heard is an agent.Overlay (an agent's reply, by
// rank of the mesh), an actor.Event, or one of the events in effects.go. now dates events without a
// time of their own.
func (st *state) step(heard any, now time.Time) effects {
	x := &effects{}
	if st.fenced != nil {
		return *x
	}
	switch h := heard.(type) {
	case agent.Overlay:
		st.applyAnswer(x, agentAnswer{agentRequest{serial: st.serial + 1}, h}, now)
	case agentAnswer:
		st.applyAnswer(x, h, now)
	case createFailure:
		for rank, s := range st.statusesAfterFailure(h) {
			if s.Phase == agent.Failed {
				st.advance(x, rank, s, actor.Event{Reason: s.Reason, At: now}, now)
			} else {
				st.setReason(rank, s.Reason)
				st.rankState(rank).unconfirmed = errors.Is(h.err, actor.ErrLinkBroken)
			}
		}
	case actor.Event:
		if h, in := h.ClampRanks(st.spec.Procs.Extent.NumRanks()); in {
			h.Each(func(e actor.Event) { st.handleEvent(x, e, now) })
		}
	case startResult:
		st.handleStartResult(x, h, now)
	case takenShare:
		st.handleTakenShare(x, h, now)
	case fenced:
		st.fence(x, h.by, now)
	case evacuate:
		st.evacuate(x, h, now)
	case departed:
		st.handleDeparted(x, h, now)
	case actorsUp:
		st.handleActorsUp(h)
	case restartOrder:
		st.beginRestarts(x, h, now)
	case growth:
		st.grow(h)
	case shrinkage:
		st.shrink(x, h, now)
	case resized:
		st.endResize(x, now)
	case spareInfo:
		st.spares.note(h)
	case timerFired:
		st.handleTimer(x, now)
	case renewalDue:
		st.retryStaleStops(x)
	case hostChange:
		st.handleHostChange(x, h, now)
	case staleStopped:
		st.handleStaleStopped(h)
	}
	st.advanceEvacuations(x, now)
	st.endRestarts(x)
	x.wake = st.nextGiveUp(x.wake)
	return *x
}

// endEventGrace is the time for which a failure known only from an answer waits for its event.
const endEventGrace = 250 * time.Millisecond

// reportedFailure is a failure from an agent's answer. Its event, with the exit code, the signal
// and the last lines of stderr, travels beside the answer and may arrive after it.
type reportedFailure struct {
	status    agent.Status
	lost      bool // the answer lacks the rank: no agent reports its end
	request   agentRequest
	waitUntil time.Time
}

// newRequest numbers a request to the agents of a location. A host that lacks a rank which ran
// there at the request has lost it (CTL-8). A cast to the agents of procs may lack any.
func (st *state) newRequest(at location) agentRequest {
	r := agentRequest{serial: st.nextSerial(), evacuating: at.evacuating}
	if st.spec.Actors != nil {
		return r
	}
	for _, rank := range st.ranksOn(at.host) {
		known := st.isLive(rank) || st.peek(rank).unconfirmed && st.phaseOf(rank) == agent.Initializing
		if known && st.concernsCurrent(rank, r) {
			r.expected = append(r.expected, rank)
		}
	}
	return r
}

// answered returns the reply to the request. After an error, the reply may lack ranks for other
// reasons.
func (r agentRequest) answered(o agent.Overlay, err error) agentAnswer {
	if err != nil {
		r.expected = nil
	}
	return agentAnswer{r, o}
}

// applyAnswer applies the agents' statuses. Failures wait for their events.
func (st *state) applyAnswer(x *effects, a agentAnswer, now time.Time) {
	listed := make([]bool, len(a.expected))
	a.overlay.Each(st.spec.Region.NumRanks(), func(rank int, s agent.Status) {
		if i, ok := slices.BinarySearch(a.expected, rank); ok {
			listed[i] = true
		}
		if s.Phase == agent.Failed {
			st.reportFailure(rank, reportedFailure{status: s, request: a.agentRequest}, now)
		} else if st.concernsCurrent(rank, a.agentRequest) {
			st.advance(x, rank, s, actor.Event{Reason: s.Reason, At: now}, now)
		}
	})
	for i, rank := range a.expected {
		if !listed[i] {
			st.reportFailure(rank, reportedFailure{lost: true, request: a.agentRequest}, now)
		}
	}
}

// reportFailure records a failure that waits for its event. The first report of a rank counts. A
// rank that was removed meanwhile has none.
func (st *state) reportFailure(rank int, f reportedFailure, now time.Time) {
	_, waits := st.reportedFailures[rank]
	phase := st.phaseOf(rank)
	if waits || !st.concernsCurrent(rank, f.request) || phase == agent.NotExist || phase.Terminal() {
		return
	}
	f.request.expected = nil
	f.waitUntil = now.Add(endEventGrace)
	st.reportedFailures[rank] = f
}

// concernsCurrent reports whether a reply is about the current generation of a rank. A reply to a
// request from before a restart is not, nor is any reply during a restart.
func (st *state) concernsCurrent(rank int, r agentRequest) bool {
	seat := st.peek(rank)
	return seat.phase == stable && seat.validFrom <= r.serial && seat.oldHost == r.evacuating
}

// endReportedFailures ends the ranks whose events did not come in time. Only the controller of the
// procs can report the ends of lost ones.
func (st *state) endReportedFailures(x *effects, now time.Time) {
	var ends []actor.Event
	for _, rank := range slices.Sorted(maps.Keys(st.reportedFailures)) {
		f := st.reportedFailures[rank]
		if now.Before(f.waitUntil) {
			continue
		}
		delete(st.reportedFailures, rank)
		if !st.concernsCurrent(rank, f.request) {
			continue
		}
		e := actor.Event{Reason: f.status.Reason, At: now}
		if f.lost {
			host := st.hostOf(rank)
			reason := fmt.Sprintf("host %s does not have it", host.Label())
			if st.isLive(rank) {
				reason += ": hostd has started again"
			}
			f.status = agent.Status{Phase: agent.Failed, Reason: reason}
			e = lostProcEvent(host, reason, now)
			ends = append(ends, st.procEnds([]int{rank}, e)...)
		}
		st.advance(x, rank, f.status, e, now)
	}
	x.procEnds = append(x.procEnds, agent.JoinRuns(ends)...)
}

// handleEvent applies an event of a proc of the mesh, or of an actor in one. The end of either ends
// the rank.
func (st *state) handleEvent(x *effects, e actor.Event, now time.Time) {
	rank, in := st.spec.Region.ViewRank(e.Rank)
	if !in || e.Mesh != st.spec.Procs.ID.String() {
		return
	}
	switch {
	case e.Kind == actor.KindProc && st.spec.Actors != nil:
		st.handleProcEvent(x, rank, e, now)
	case e.Kind == actor.KindProc:
		switch gen := st.table.Gen(st.spec.id(), rank); {
		case e.Gen != gen: // of a former generation
		case e.Terminal():
			st.advance(x, rank, endStatus(e), e, now)
		case e.Status == string(actor.Running):
			st.markRunning(x, rank, now)
		}
	case e.EndedWithProc(): // the end of the proc has an event of its own
	case e.Kind == actor.KindActor && st.spec.Actors != nil && e.Actor == st.spec.Actors.Name && e.Terminal():
		seat := st.peek(rank)
		moved := seat.migration != notMigrating && seat.procEnded
		if e.Gen == seat.procGen && e.Nth >= seat.minEvent && !moved {
			st.advance(x, rank, endStatus(e), e, now)
		}
	}
}

// handleProcEvent applies an event of an actor's proc.
func (st *state) handleProcEvent(x *effects, rank int, e actor.Event, now time.Time) {
	seat := st.peek(rank)
	switch {
	case e.Gen < seat.procGen, e.Gen == seat.procGen && seat.migration != notMigrating && seat.procEnded:
	case e.Step == agent.StepMoveAttempt:
		st.moveWithProc(x, rank, e, now)
	case e.Terminal():
		if st.supervisor != nil {
			s := st.rankState(rank)
			s.procGen = e.Gen
			s.procEnded = true
		}
		st.advance(x, rank, endStatus(e), e, now)
	case e.Status == string(actor.Running) && e.Gen > seat.procGen && st.supervisor != nil:
		s := st.rankState(rank)
		s.assignProc(e)
		if s.phase == awaitingProc {
			st.startRank(x, rank)
		}
	}
}

// assignProc records the proc of an actor, and the host that the procs' controller chose.
func (s *rankState) assignProc(e actor.Event) {
	s.procGen = e.Gen
	s.procEnded = false
	s.minEvent = 0
	if h, err := subjects.ParseHostID(e.Host); err == nil {
		s.procHost = h
	}
}

// endStatus returns the status after an end event.
func endStatus(e actor.Event) agent.Status {
	if e.Failed() {
		return agent.Status{Phase: agent.Failed, Reason: e.Reason}
	}
	return agent.Status{Phase: agent.Stopped, Reason: e.Reason}
}

// advance moves one rank forward. A recovered failure is no end (CTL-6).
func (st *state) advance(x *effects, rank int, s agent.Status, about actor.Event, now time.Time) {
	switch known := st.phaseOf(rank); {
	case known.Terminal():
	case s.Phase == agent.Running:
		st.markRunning(x, rank, now)
	case s.Phase == agent.Failed:
		if more := st.decideRecovery(x, rank, s.Reason, about, now); more != nil {
			if more.gaveUp != "" {
				s.Reason += more.gaveUp
				about.Step = "rank.restart.failed"
			}
			st.endRank(x, rank, s, about)
		}
	case s.Phase == agent.Stopped:
		st.endRank(x, rank, s, about)
	default:
		st.table.Advance(st.spec.id(), rank, s)
	}
}

// endRank ends a rank for good, and records and reports it once (CTL-3).
func (st *state) endRank(x *effects, rank int, s agent.Status, about actor.Event) {
	step := ""
	// The controller of the procs reports the failure of a proc that it does not restart.
	withProc := st.spec.Actors != nil && about.Kind == actor.KindProc && !st.spec.Procs.Restarts
	expected := st.stopping || st.phaseOf(rank) == agent.ShuttingDown || st.neverRan(rank) || withProc ||
		st.isUnannounced(rank)
	if s.Phase == agent.Failed {
		step = st.failedStep(rank)
	}
	if !st.table.Advance(st.spec.id(), rank, s) {
		return
	}
	st.stopSupervising(rank)
	about.Reason = s.Reason
	about.Step = cmp.Or(step, about.Step)
	dropped := s.Phase == agent.Failed && st.spec.RestartPolicy.Restart == actor.Temporary && !st.stopping
	if dropped {
		st.rankState(rank).dropped = true
		about.Step = "rank.drop"
	}
	e := st.report(x, rank, s.Phase.String(), about)
	if s.Phase == agent.Failed && !dropped && !expected {
		x.failures = append(x.failures, e)
	}
}

// failedStep returns the step name for the failure of a rank that migrated or would have restarted.
func (st *state) failedStep(rank int) string {
	seat := st.peek(rank)
	switch {
	case st.stopping:
	case seat.migration != notMigrating:
		_, _, failed := seat.migration.stepNames()
		return failed
	case st.supervisor != nil && st.supervisor.Has(rank) && !st.neverRan(rank):
		return "rank.restart.failed"
	}
	return ""
}

// markRunning records that a rank runs.
func (st *state) markRunning(x *effects, rank int, now time.Time) {
	if !st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.Running}) {
		return
	}
	seat := st.rankStates[rank]
	if seat == nil || seat.phase == stable {
		return
	}
	done, reason := "rank.restart.success", ""
	if seat.migration != notMigrating {
		_, done, _ = seat.migration.stepNames()
		reason = seat.unawaited
		if gen := st.table.Gen(st.spec.id(), rank); len(seat.owners) > 0 {
			seat.actorWaitGen = gen
			x.actorWaits = append(x.actorWaits, actorWait{rank, gen, seat.owners})
		}
	}
	st.endRestart(x, rank, now)
	st.report(x, rank, string(actor.Running), actor.Event{Step: done, Reason: reason, At: now})
}

// report completes e to an event of a rank of the mesh, and numbers, keeps and publishes it.
func (st *state) report(x *effects, rank int, status string, e actor.Event) actor.Event {
	_, base := st.hostIndex(rank)
	e.Kind = st.spec.kind()
	e.Status = status
	e.Mesh = st.spec.Procs.ID.String()
	e.Rank = base
	e.Name = st.spec.Name
	e.View = rank
	if p, err := st.spec.Procs.Extent.Point(base); err == nil {
		e.Point = p.String()
	}
	if st.spec.Actors != nil {
		e.Actor = st.spec.Actors.Name
		e.Type = st.spec.Actors.Type
		e.Gen = st.peek(rank).procGen
	} else {
		e.Gen = st.table.Gen(st.spec.id(), rank)
	}
	if e.Host == "" {
		e.Host = st.hostOf(rank).String()
	}
	e.PerProcess = st.spec.Procs.PerProcess
	e.ProcIndex = base % max(e.PerProcess, 1)
	if st.isUnannounced(rank) { // the Grow reports it
		return e
	}
	e = st.changes.add(rank, e)
	x.events = append(x.events, e)
	return e
}
