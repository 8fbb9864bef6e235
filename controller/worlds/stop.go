package worlds

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// managerStop is how long a stop may take when a proc has died without which there is no system.
	managerStop = 5 * time.Second
	// maxStop bounds how long a stop may take.
	maxStop = time.Hour
	// killReserve is how long before the end of a stop procs are killed.
	killReserve = 2 * time.Second
)

// graceOf is what procs get to stop in when the whole may take so long.
func graceOf(timeout time.Duration) time.Duration { return timeout - min(killReserve, timeout/2) }

// stopOp is a stop that somebody waits for.
type stopOp struct {
	from     ticket // 0: nobody
	deadline time.Time
	worlds   map[string]*world // that have not ended
	report   StopReport
	all      string // why the system ends with it; "" = it does not
}

// ending is a world that is being stopped.
type ending struct {
	op      *stopOp
	why     string
	waiting map[party]bool
	tally   WorldStopped
}

// stop is answered twice: what is stopped at once, and a report at the end (WORLD-11).
func (st *state) stop(e stop) {
	timeout, why := cmp.Or(e.Timeout, st.stopWithin), cmp.Or(e.Reason, "asked to stop")
	if timeout < 0 || timeout > maxStop {
		st.answer(e.from, nil, fmt.Errorf("stop within %s: want more than 0 and at most %s", timeout, maxStop))
		return
	}
	if e.All == (len(e.Worlds) > 0) {
		st.answer(e.from, nil, errors.New("stop: want the names of worlds, or all and no name"))
		return
	}
	op := &stopOp{from: e.from, deadline: st.now.Add(timeout), worlds: map[string]*world{}}
	names, all := slices.Compact(slices.Sorted(slices.Values(e.Worlds))), e.All
	if all {
		names, op.all, st.going = slices.Sorted(maps.Keys(st.worlds)), why, cmp.Or(st.going, why)
	}
	accepted := Accepted{Worlds: []string{}}
	skip := func(name, why string) {
		if accepted.Skipped == nil {
			accepted.Skipped = map[string]string{}
		}
		accepted.Skipped[name] = why
	}
	for _, name := range names {
		switch w := st.worlds[name]; {
		case w == nil:
			skip(name, "there is no such world")
		case w.ending != nil:
			skip(name, "it is being stopped already")
		default:
			accepted.Worlds = append(accepted.Worlds, name)
		}
	}
	st.answer(e.from, accepted, nil)
	for _, name := range accepted.Worlds {
		op.worlds[name] = st.worlds[name]
	}
	st.stops = append(st.stops, op)
	if all {
		st.nameless(fmt.Errorf("the system is being stopped: %s", why))
		st.stopDetached(why)
	}
	for _, name := range accepted.Worlds {
		st.end(st.worlds[name], op, why, timeout)
	}
	st.finish(op)
}

// halt stops everything for a reason of the system's own.
func (st *state) halt(why string) {
	if st.going == "" {
		st.stop(stop{Stopping: Stopping{All: true, Timeout: managerStop, Reason: why}})
	}
}

// evict stops a world one of whose procs has been unhealthy for too long (WORLD-7).
func (st *state) evict(w *world) {
	st.sick.stop(&w.clock)
	_, bad := w.is()
	why := fmt.Sprintf("evicted: unhealthy for %s: %s", st.eviction, bad)
	op := &stopOp{deadline: st.now.Add(st.stopWithin), worlds: map[string]*world{w.name: w}}
	st.stops = append(st.stops, op)
	st.do(told{world: w.name, mesh: w.mesh, step: "world.evict", now: w.status, why: why})
	st.end(w, op, why, st.stopWithin)
	st.finish(op)
}

// end asks the members of a world to stop, one message per host. A world without any is gone at once.
func (st *state) end(w *world, op *stopOp, why string, timeout time.Duration) {
	w.ending = &ending{op: op, why: why, waiting: map[party]bool{}, tally: WorldStopped{World: w.name}}
	st.sick.stop(&w.clock)
	st.do(save{w.record()})
	ask := func(who party) {
		w.ending.waiting[who] = true
		st.do(halt{world: w.name, who: who, mesh: w.mesh, grace: graceOf(timeout), why: why})
	}
	for _, rank := range slices.Sorted(maps.Keys(w.seats)) {
		if s := w.seats[rank]; s.count > 0 {
			ask(party{host: s.host.id})
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(w.procs)) {
		if m := w.procs[rank]; m.seat == nil {
			ask(party{proc: m.id})
		}
	}
	if len(w.ending.waiting) == 0 {
		st.ended(w)
	}
}

// stopped takes the answer of a member; one that comes late, or twice, means nothing.
func (st *state) stopped(e stopped) {
	w := st.worlds[e.world]
	if w == nil || w.ending == nil || !w.ending.waiting[e.who] {
		return
	}
	delete(w.ending.waiting, e.who)
	w.ending.tally.Stopped += e.stopped
	w.ending.tally.Aborted += e.aborted
	if len(w.ending.waiting) == 0 {
		st.ended(w)
	}
}

// ended takes a world away whose members have stopped, or have had the time to.
func (st *state) ended(w *world) {
	op, tally := w.ending.op, w.ending.tally
	for who := range w.ending.waiting {
		tally.Silent = append(tally.Silent, who.String())
	}
	slices.Sort(tally.Silent)
	st.remove(w)
	st.do(told{world: w.name, mesh: w.mesh, step: "world.end", now: w.status, why: w.ending.why})
	delete(op.worlds, w.name)
	op.report.Worlds = append(op.report.Worlds, tally)
	st.finish(op)
}

// overdue ends the stops whose time has passed.
func (st *state) overdue() {
	for _, op := range slices.Clone(st.stops) {
		if st.now.Before(op.deadline) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(op.worlds)) {
			st.ended(op.worlds[name])
		}
		st.finish(op)
	}
}

// finish reports a stop that is over, once.
func (st *state) finish(op *stopOp) {
	late := !st.now.Before(op.deadline)
	if len(op.worlds) > 0 || op.all != "" && len(st.worlds) > 0 && !late || !slices.Contains(st.stops, op) {
		return
	}
	st.stops = slices.DeleteFunc(st.stops, func(o *stopOp) bool { return o == op })
	slices.SortFunc(op.report.Worlds, func(a, b WorldStopped) int { return cmp.Compare(a.World, b.World) })
	if op.from != 0 {
		st.do(report{op.from, op.report})
	}
	if op.all != "" {
		st.do(quit{op.all})
		return
	}
	for _, other := range slices.Clone(st.stops) { // one of everything may have waited for this
		if other.all != "" {
			st.finish(other)
		}
	}
}
