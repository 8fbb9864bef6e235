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
// agent.Overlay (an agent's answer, by rank of the mesh) or an actor.Event.
func (st *state) step(heard any) []actor.Event {
	var ends []actor.Event
	switch h := heard.(type) {
	case agent.Overlay:
		h.Each(st.spec.Region.NumRanks(), func(rank int, s agent.Status) {
			ends = st.advance(ends, rank, s, actor.Event{Reason: s.Reason})
		})
	case actor.Event:
		rank, status, ok := st.meaning(h)
		if ok {
			ends = st.advance(ends, rank, status, h)
		}
	}
	return ends
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

// advance moves one rank, and adds its end when this is it.
func (st *state) advance(ends []actor.Event, rank int, s agent.Status, about actor.Event) []actor.Event {
	if !st.table.Advance(st.spec.id(), rank, s) || !s.Phase.Terminal() {
		return ends
	}
	base, err := st.spec.Region.BaseRank(rank)
	if err != nil {
		return ends
	}
	if about.At.IsZero() {
		about.At = time.Now()
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
	return append(ends, about)
}

// ended lists the ends that were known before.
func (st *state) ended() []actor.Event {
	var out []actor.Event
	for _, s := range st.table.States(st.spec.id()) {
		if !s.Status.Phase.Terminal() {
			continue
		}
		base, err := st.spec.Region.BaseRank(s.Rank)
		if err != nil {
			continue
		}
		e := actor.Event{
			Kind: st.spec.kind(), Status: s.Status.Phase.String(), Mesh: st.spec.Procs.ID.String(),
			Rank: base, Reason: s.Status.Reason, At: time.Now(),
		}
		if st.spec.Actors != nil {
			e.Actor, e.Type = st.spec.Actors.Name, st.spec.Actors.Type
		}
		out = append(out, e)
	}
	return out
}

// over reports whether every rank has ended.
func (st *state) over() bool { return st.table.Alive() == 0 }
