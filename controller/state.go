package controller

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// state is what a controller knows of its mesh. step is the only thing that changes it.
type state struct {
	spec  Spec
	table *agent.Table
	ends  []actor.Event // of the ranks that have ended, in the order they were heard
	was   agent.Phase   // of the mesh, when steps was asked last
}

// phase is how the mesh is as a whole: as its least advanced rank is, and failed once it is over and a
// rank has failed.
func (st *state) phase() agent.Phase {
	n := st.table.Phases(st.spec.id())
	if least := n.Least(); least != agent.Stopped || n[agent.Failed] == 0 {
		return least
	}
	return agent.Failed
}

// meshStep is something that became of the mesh as a whole.
type meshStep struct{ name, reason string }

// steps says what has become of the mesh since it was asked last.
func (st *state) steps() []meshStep {
	was, now := st.was, st.phase()
	st.was = now
	switch {
	case now <= was:
		return nil
	case now == agent.Running:
		if n := st.failed(); n > 0 {
			return []meshStep{{"mesh.spawn.failed", fmt.Sprintf("%d ranks did not start", n)}}
		}
		return []meshStep{{"mesh.spawn.success", ""}}
	case now == agent.ShuttingDown:
		return []meshStep{{"mesh.stop.attempt", ""}}
	case was < agent.Running && now == agent.Failed:
		return []meshStep{{"mesh.spawn.failed", fmt.Sprintf("%d ranks did not start", st.failed())}}
	case now == agent.Failed:
		return []meshStep{{"mesh.end.failed", fmt.Sprintf("%d ranks failed", st.failed())}}
	}
	return []meshStep{{"mesh.stop.success", ""}}
}

func (st *state) failed() int { return st.table.Phases(st.spec.id())[agent.Failed] }

func newState(s Spec) (*state, error) {
	st := &state{spec: s, table: agent.NewTable()}
	ranks := make([]int, s.Region.NumRanks())
	for i := range ranks {
		ranks[i] = i
	}
	st.was = agent.Initializing
	_, err := st.table.Create(agent.Making{ID: s.id(), Ranks: ranks, Mesh: &st.spec.Procs})
	return st, err
}

// step takes one thing that was heard and returns the ends it makes known (CTL-3). heard is an
// agent.Overlay (an agent's answer, by rank of the mesh), a failure to create, or an actor.Event;
// now dates what is no event, which has a date of its own.
func (st *state) step(heard any, now time.Time) []actor.Event {
	before := len(st.ends)
	switch h := heard.(type) {
	case agent.Overlay:
		h.Each(st.spec.Region.NumRanks(), func(rank int, s agent.Status) {
			st.advance(rank, s, actor.Event{Reason: s.Reason, At: now})
		})
	case failure:
		for rank, s := range st.blame(h) {
			if s.Phase == agent.Failed {
				st.advance(rank, s, actor.Event{Reason: s.Reason, At: now})
			} else {
				st.table.Describe(st.spec.id(), rank, func(known *agent.State) { known.Status.Reason = s.Reason })
			}
		}
	case actor.Event:
		h.Each(func(e actor.Event) {
			if rank, status, ok := st.meaning(e); ok {
				st.advance(rank, status, e)
			}
		})
	}
	return st.ends[before:]
}

// meaning says what an event means for which rank of the mesh: the end of an actor or of its proc
// ends the rank.
func (st *state) meaning(e actor.Event) (int, agent.Status, bool) {
	if e.Mesh != st.spec.Procs.ID.String() {
		return 0, agent.Status{}, false
	}
	rank, in := st.spec.Region.ViewRank(e.Rank)
	switch {
	case !in || !e.Terminal():
		return 0, agent.Status{}, false
	case e.Kind == actor.KindActor && (st.spec.Actors == nil || e.Actor != st.spec.Actors.Name):
		return 0, agent.Status{}, false
	}
	s := agent.Status{Phase: agent.Stopped, Reason: e.Reason}
	if e.Status == string(actor.Failed) {
		s.Phase = agent.Failed
	}
	return rank, s, true
}

// advance moves one rank, and records its end when this is it.
func (st *state) advance(rank int, s agent.Status, about actor.Event) {
	base, err := st.spec.Region.BaseRank(rank)
	if err != nil || !st.table.Advance(st.spec.id(), rank, s) || !s.Phase.Terminal() {
		return
	}
	about.Kind, about.Status = st.spec.kind(), string(actor.Stopped)
	if s.Phase == agent.Failed {
		about.Status = string(actor.Failed)
	}
	about.Mesh, about.Rank = st.spec.Procs.ID.String(), base
	if st.spec.Actors != nil {
		about.Actor, about.Type = st.spec.Actors.Name, st.spec.Actors.Type
	}
	if about.Host == "" {
		about.Host = st.spec.Procs.Hosts[base/st.spec.Procs.PerHost].String()
	}
	st.ends = append(st.ends, about)
}

// over reports whether every rank has ended.
func (st *state) over() bool { return st.table.Alive() == 0 }
