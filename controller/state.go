package controller

import (
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// state is what a controller knows of its mesh. step is the only thing that changes it.
type state struct {
	spec  Spec
	table *agent.Table
	ends  []actor.Event // of the ranks that have ended, in the order they were heard
}

func newState(s Spec) (*state, error) {
	st := &state{spec: s, table: agent.NewTable()}
	ranks := make([]int, s.Region.NumRanks())
	for i := range ranks {
		ranks[i] = i
	}
	_, err := st.table.Create(s.id(), "", ranks, &st.spec.Procs)
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
		if rank, status, ok := st.meaning(h); ok {
			st.advance(rank, status, h)
		}
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
