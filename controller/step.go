package controller

import (
	"cmp"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// step takes one thing that was heard and says what to do about it. heard is an agent.Overlay (an agent's
// answer, by rank of the mesh), an answer, a failure to create, started, taken, fenced, vacate, left,
// followed, roll, spareIs, due, hostIs or an actor.Event; now dates what is no event, which has a date of its own.
func (st *state) step(heard any, now time.Time) effects {
	x := &effects{}
	if st.fenced != nil {
		return *x
	}
	switch h := heard.(type) {
	case agent.Overlay:
		st.take(x, answer{asked: st.serial + 1, overlay: h}, now)
	case answer:
		st.take(x, h, now)
	case failure:
		for rank, s := range st.blame(h) {
			if s.Phase == agent.Failed {
				st.advance(x, rank, s, actor.Event{Reason: s.Reason, At: now}, now)
			} else {
				st.describe(rank, s.Reason)
			}
		}
	case actor.Event:
		h.Each(func(e actor.Event) { st.event(x, e, now) })
	case started:
		st.startedAnew(x, h, now)
	case taken:
		st.takenOver(x, h, now)
	case fenced:
		st.fence(x, h.by, now)
	case vacate:
		st.vacate(x, h)
	case left:
		st.left(x, h, now)
	case followed:
		st.followed(h)
	case roll:
		st.roll(x, h, now)
	case spareIs:
		st.spareIs(h)
	case due:
		st.dueNow(x, now)
	case hostIs:
		st.hostIs(x, h, now)
	}
	st.moveOn(x, now)
	st.rollOn(x)
	x.wake = st.wake(x.wake)
	return *x
}

// take takes what agents say of ranks, but for those that have been started since they were asked, or
// are to be.
func (st *state) take(x *effects, a answer, now time.Time) {
	a.overlay.Each(st.spec.Region.NumRanks(), func(rank int, s agent.Status) {
		if seat := st.known(rank); seat.doing == settled && seat.since <= a.asked && seat.from == a.behind {
			st.advance(x, rank, s, actor.Event{Reason: s.Reason, At: now}, now)
		}
	})
}

// event takes an event about a proc of the mesh or an actor in one: the end of either ends the rank.
func (st *state) event(x *effects, e actor.Event, now time.Time) {
	rank, in := st.spec.Region.ViewRank(e.Rank)
	if !in || e.Mesh != st.spec.Procs.ID.String() {
		return
	}
	switch {
	case e.Kind == actor.KindProc && st.spec.Actors != nil:
		st.procOf(x, rank, e, now)
	case e.Kind == actor.KindProc:
		switch gen := st.table.Gen(st.spec.id(), rank); {
		case e.Gen != gen: // one that had the rank before
		case e.Terminal():
			st.advance(x, rank, ended(e), e, now)
		case e.Status == string(actor.Running):
			st.running(x, rank, now)
		}
	case e.WithProc(): // that one's end is said of it, and decides
	case e.Kind == actor.KindActor && st.spec.Actors != nil && e.Actor == st.spec.Actors.Name && e.Terminal():
		if seat := st.known(rank); e.Gen == seat.proc && e.Nth >= seat.nth && !(seat.errand != none && seat.dead) {
			st.advance(x, rank, ended(e), e, now)
		}
	}
}

// procOf takes an event about the proc that an actor is in.
func (st *state) procOf(x *effects, rank int, e actor.Event, now time.Time) {
	seat := st.known(rank)
	switch {
	case e.Gen < seat.proc, e.Gen == seat.proc && seat.errand != none && seat.dead:
	case e.Step == agent.Moving:
		st.movesWith(x, rank, e, now)
	case e.Terminal():
		if st.restart != nil {
			s := st.seat(rank)
			s.proc, s.dead = e.Gen, true
		}
		st.advance(x, rank, ended(e), e, now)
	case e.Status == string(actor.Running) && e.Gen > seat.proc && st.restart != nil:
		s := st.seat(rank)
		s.inhabit(e)
		if s.doing == held {
			st.start(x, rank)
		}
	}
}

// inhabit notes in which proc an actor is to be, and on which host: spare ones are the procs' to choose.
func (s *seat) inhabit(e actor.Event) {
	s.proc, s.dead, s.nth = e.Gen, false, 0
	if h, err := subjects.ParseHostID(e.Host); err == nil {
		s.home = h
	}
}

// ended is the status that the event of an end means.
func ended(e actor.Event) agent.Status {
	if e.Failed() {
		return agent.Status{Phase: agent.Failed, Reason: e.Reason}
	}
	return agent.Status{Phase: agent.Stopped, Reason: e.Reason}
}

// advance moves one rank. A failure that is recovered from is no end (CTL-6).
func (st *state) advance(x *effects, rank int, s agent.Status, about actor.Event, now time.Time) {
	switch known := st.table.Status(st.spec.id(), rank).Phase; {
	case known.Terminal():
	case s.Phase == agent.Running:
		st.running(x, rank, now)
	case s.Phase == agent.Failed:
		if more := st.recovers(x, rank, s.Reason, about, now); more != nil {
			if s.Reason += more.gaveUp; more.gaveUp != "" {
				about.Step = "rank.restart.failed"
			}
			st.end(x, rank, s, about)
		}
	case s.Phase == agent.Stopped:
		st.end(x, rank, s, about)
	default:
		st.table.Advance(st.spec.id(), rank, s)
	}
}

// end ends a rank for good, which is recorded and told once (CTL-3).
func (st *state) end(x *effects, rank int, s agent.Status, about actor.Event) {
	step := ""
	expected := st.stopping || st.phaseOf(rank) == agent.ShuttingDown || st.neverRan(rank) ||
		st.spec.Actors != nil && about.Kind == actor.KindProc // its proc's end is the failure
	if s.Phase == agent.Failed {
		step = st.inVain(rank)
	}
	if !st.table.Advance(st.spec.id(), rank, s) {
		return
	}
	st.forget(rank)
	about.Reason, about.Step = s.Reason, cmp.Or(step, about.Step)
	e := st.about(rank, s.Phase.String(), about)
	if s.Phase == agent.Failed && st.spec.Policy.Recovery == Drop && !st.stopping {
		st.seat(rank).dropped, e.Step = true, "rank.drop"
	} else if s.Phase == agent.Failed && !expected {
		x.failures = append(x.failures, e)
	}
	st.ends = append(st.ends, e)
	x.news = append(x.news, e)
}

// inVain is the step that the failure of a rank is, which was on an errand, or would have been started again.
func (st *state) inVain(rank int) string {
	seat := st.known(rank)
	switch {
	case st.stopping:
	case seat.errand != none:
		_, _, failed := seat.errand.steps()
		return failed
	case st.restart != nil && st.restart.Has(rank) && !st.neverRan(rank):
		return "rank.restart.failed"
	}
	return ""
}

// running notes that a rank runs.
func (st *state) running(x *effects, rank int, now time.Time) {
	if !st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.Running}) {
		return
	}
	seat := st.seats[rank]
	if seat == nil || seat.doing == settled {
		return
	}
	done := "rank.restart.success"
	if seat.errand != none {
		_, done, _ = seat.errand.steps()
		if gen := st.table.Gen(st.spec.id(), rank); len(seat.owners) > 0 {
			seat.follows = gen
			x.follows = append(x.follows, follow{rank, gen, seat.owners})
		}
	}
	st.settle(x, rank, now)
	x.news = append(x.news, st.about(rank, string(actor.Running), actor.Event{Step: done, At: now}))
}

// about completes an event about a rank: whatever it was about before, now it is about the rank, in the
// mesh's own terms.
func (st *state) about(rank int, status string, e actor.Event) actor.Event {
	_, base := st.host(rank)
	e.Kind, e.Status, e.Mesh, e.Rank = st.spec.kind(), status, st.spec.Procs.ID.String(), base
	e.Name, e.View = st.spec.Name, rank
	if p, err := st.spec.Procs.Extent.Point(base); err == nil {
		e.Point = p.String()
	}
	if st.spec.Actors != nil {
		e.Actor, e.Type = st.spec.Actors.Name, st.spec.Actors.Type
		e.Gen = st.known(rank).proc
	} else {
		e.Gen = st.table.Gen(st.spec.id(), rank)
	}
	if e.Host == "" {
		e.Host = st.at(rank).String()
	}
	return e
}
