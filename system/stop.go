package system

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
)

const (
	// managerStopTimeout bounds the stop after a manager of the system has died.
	managerStopTimeout = 5 * time.Second
	// maxStopTimeout is the longest timeout of a stop.
	maxStopTimeout = time.Hour
	// maxKilled bounds the named procs in a report.
	maxKilled = 64
	// killReserve is the time between the kill of procs and the end of a stop.
	killReserve = 2 * time.Second
)

// graceOf is the procs' part of a stop's timeout.
func graceOf(timeout time.Duration) time.Duration { return timeout - min(killReserve, timeout/2) }

// stopOp is a stop with a waiting caller.
type stopOp struct {
	reportTo     *actor.PortRef[StopReport] // nil: no report
	deadline     time.Time
	worlds       map[string]*world // worlds that have not ended
	report       StopReport
	systemReason string // why the system ends with the stop; "": it does not
}

// stoppingWorld is a world that is being stopped.
type stoppingWorld struct {
	op      *stopOp
	why     string
	waiting map[memberRef]bool
	result  WorldStopped
}

// stop replies twice: with the stopping worlds at once, and with a report at the end (WORLD-8).
func (st *state) stop(e stop) {
	timeout := cmp.Or(e.Timeout, st.stopWithin)
	why := cmp.Or(e.Reason, "asked to stop")
	if timeout < 0 || timeout > maxStopTimeout {
		st.answer(e.from, nil, fmt.Errorf("stop timeout %s: want more than 0 and at most %s",
			timeout, maxStopTimeout))
		return
	}
	if e.All == (len(e.Worlds) > 0) {
		st.answer(e.from, nil, errors.New("cannot stop: want either names of worlds or all"))
		return
	}
	op := &stopOp{reportTo: e.Report, deadline: st.now.Add(timeout), worlds: map[string]*world{}}
	names := slices.Compact(slices.Sorted(slices.Values(e.Worlds)))
	if e.All {
		names = slices.Sorted(maps.Keys(st.worlds))
		op.systemReason = why
		st.shutdownReason = cmp.Or(st.shutdownReason, why)
	}
	accepted := StopResponse{Worlds: []string{}}
	skip := func(name, why string) {
		if accepted.Skipped == nil {
			accepted.Skipped = map[string]string{}
		}
		accepted.Skipped[name] = why
	}
	for _, name := range names {
		switch w := st.worlds[name]; {
		case w == nil:
			skip(name, SkippedNotFound)
		case w.stopping != nil:
			skip(name, SkippedStopping)
		default:
			accepted.Worlds = append(accepted.Worlds, name)
		}
	}
	st.answer(e.from, accepted, nil)
	for _, name := range accepted.Worlds {
		op.worlds[name] = st.worlds[name]
	}
	st.stops = append(st.stops, op)
	if e.All {
		st.reserved.dropAll()
		st.detached.stopAll(why)
	}
	for _, name := range accepted.Worlds {
		st.beginStop(st.worlds[name], op, why, timeout)
	}
	st.sendStopReport(op)
}

// shutDown stops everything without a caller.
func (st *state) shutDown(why string) {
	if st.shutdownReason == "" {
		st.stop(stop{StopRequest: StopRequest{All: true, Timeout: managerStopTimeout, Reason: why}})
	}
}

// evict stops a world with a proc that was unhealthy for too long (WORLD-6).
func (st *state) evict(w *world) {
	st.unhealthyTimers.stop(&w.unhealthyTimer)
	_, bad := w.deriveStatus()
	why := fmt.Sprintf("evicted: unhealthy for %s: %s", st.eviction, bad)
	op := &stopOp{deadline: st.now.Add(st.stopWithin), worlds: map[string]*world{w.name: w}}
	st.stops = append(st.stops, op)
	st.emit(worldEvent{world: w.name, mesh: w.mesh, step: "world.evict", now: w.status, why: why})
	st.beginStop(w, op, why, st.stopWithin)
	st.sendStopReport(op)
}

// beginStop orders the members of a world to stop, with one message per host. A world without
// members ends at once.
func (st *state) beginStop(w *world, op *stopOp, why string, timeout time.Duration) {
	w.stopping = &stoppingWorld{
		op: op, why: why, waiting: map[memberRef]bool{}, result: WorldStopped{World: w.name},
	}
	st.unhealthyTimers.stop(&w.unhealthyTimer)
	st.emit(saveRecord{w.record()})
	ask := func(who memberRef) {
		w.stopping.waiting[who] = true
		st.emit(stopShare{world: w.name, who: who, mesh: w.mesh, grace: graceOf(timeout), why: why})
	}
	for _, rank := range slices.Sorted(maps.Keys(w.assignments)) {
		if s := w.assignments[rank]; s.count > 0 {
			ask(memberRef{host: s.host.id})
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(w.procs)) {
		if m := w.procs[rank]; m.assignment == nil {
			ask(memberRef{proc: m.id})
		}
	}
	if len(w.stopping.waiting) == 0 {
		st.finishWorld(w)
	}
}

// handleStopped applies the reply of a member; a late or repeated one has no effect.
func (st *state) handleStopped(e memberStopped) {
	w := st.worlds[e.world]
	if w == nil || w.stopping == nil || !w.stopping.waiting[e.who] {
		return
	}
	delete(w.stopping.waiting, e.who)
	w.stopping.result.Stopped += e.stopped
	result := &w.stopping.result
	result.Aborted += e.aborted
	result.Killed = append(result.Killed, e.killed[:min(len(e.killed), maxKilled-len(result.Killed))]...)
	if len(w.stopping.waiting) == 0 {
		st.finishWorld(w)
	}
}

// finishWorld removes a world whose members have stopped, or whose stop has timed out.
func (st *state) finishWorld(w *world) {
	op := w.stopping.op
	tally := w.stopping.result
	for who := range w.stopping.waiting {
		tally.Silent = append(tally.Silent, who.String())
	}
	slices.Sort(tally.Silent)
	slices.Sort(tally.Killed)
	st.removeWorld(w)
	st.emit(worldEvent{world: w.name, mesh: w.mesh, step: "world.end", now: w.status, why: w.stopping.why})
	delete(op.worlds, w.name)
	op.report.Worlds = append(op.report.Worlds, tally)
	st.sendStopReport(op)
}

// expireStops ends the stops whose deadline has passed.
func (st *state) expireStops() {
	for _, op := range slices.Clone(st.stops) {
		if st.now.Before(op.deadline) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(op.worlds)) {
			st.finishWorld(op.worlds[name])
		}
		st.sendStopReport(op)
	}
}

// sendStopReport reports a finished stop, once.
func (st *state) sendStopReport(op *stopOp) {
	late := !st.now.Before(op.deadline)
	waits := op.systemReason != "" && len(st.worlds) > 0 && !late
	if len(op.worlds) > 0 || waits || !slices.Contains(st.stops, op) {
		return
	}
	st.stops = slices.DeleteFunc(st.stops, func(o *stopOp) bool { return o == op })
	slices.SortFunc(op.report.Worlds, func(a, b WorldStopped) int { return cmp.Compare(a.World, b.World) })
	if op.reportTo != nil {
		st.emit(sendReport{*op.reportTo, op.report})
	}
	if op.systemReason != "" {
		st.emit(quit{op.systemReason})
		return
	}
	for _, other := range slices.Clone(st.stops) { // a stop of the system may have waited for this one
		if other.systemReason != "" {
			st.sendStopReport(other)
		}
	}
}
