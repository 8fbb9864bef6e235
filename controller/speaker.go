package controller

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/subjects"
)

// record is what is known of a mesh, whatever it is of.
type record struct {
	spec     Spec
	table    *agent.Table
	stopping bool               // nothing is started any more
	fenced   *agent.FencedError // another owner has the mesh: nothing is done any more (CTL-10)

	// ends is what who comes later is told: how ranks have ended for good, in the order that was heard (CTL-3); of hosts,
	// how those are that are not well (CTL-17).
	ends  []actor.Event
	hosts map[subjects.HostID]presence.Change // those that are not known to be alive
}

// newRecord is a mesh of which nothing is there.
func newRecord(s Spec) (*record, error) {
	r := &record{spec: s, table: agent.NewTable(), hosts: map[subjects.HostID]presence.Change{}}
	_, err := r.table.Create(agent.Making{ID: s.id(), Ranks: r.ranks(), Mesh: &r.spec.Procs})
	return r, err
}

// ranks are all ranks of the region.
func (r *record) ranks() []int {
	ranks := make([]int, r.spec.Region.NumRanks())
	for i := range ranks {
		ranks[i] = i
	}
	return ranks
}

// isNow notes how a host is.
func (r *record) isNow(h hostIs) {
	if delete(r.hosts, h.Host); h.State != presence.Alive {
		r.hosts[h.Host] = presence.Change(h)
	}
}

func (r *record) describe(rank int, reason string) {
	r.table.Describe(r.spec.id(), rank, func(known *agent.State) { known.Status.Reason = reason })
}

// speaker answers what every controller is asked in the same way.
type speaker struct {
	of      *record
	phaseOf func() agent.Phase // the mesh is in
	streams agent.Streams
	beating bool
	born    time.Time
}

func newSpeaker(of *record, phase func() agent.Phase) speaker {
	return speaker{of: of, phaseOf: phase, born: time.Now()}
}

// lost is that another owner has the mesh.
func (s *speaker) lost() error {
	if s.of.fenced == nil {
		return nil
	}
	return s.of.fenced
}

// names reports whether an ID names the mesh: any other is answered with nothing (AGT-4).
func (s *speaker) names(id string) bool { return id == s.of.spec.id() }

// Get is the state of every rank. Who has lost the mesh says who has it.
func (s *speaker) Get(_ *actor.Context, q agent.Query) ([]agent.State, error) {
	if err := s.lost(); err != nil {
		return nil, err
	}
	return s.of.table.States(q.ID), nil
}

// Wait answers once a condition holds for the ranks.
func (s *speaker) Wait(ctx *actor.Context, w agent.Waiting) (agent.Overlay, error) {
	if err := s.lost(); err != nil {
		return nil, err
	}
	return nil, s.of.table.AnswerWhen(ctx, w, 0)
}

// Stream sends what becomes of ranks to a port, at first how those are that have ended, or are not well; with Beat
// also that the controller lives, again and again (CTL-7).
func (s *speaker) Stream(ctx *actor.Context, st agent.Stream) (actor.None, error) {
	if st.ID != "" && !s.names(st.ID) {
		return actor.None{}, agent.Subscribe(ctx, &s.streams, st, nil)
	}
	st.ID = "" // there is one resource here
	err := s.streams.Add(ctx, st, 0, s.of.ends)
	if err == nil && st.Beat > 0 && !st.End && !s.beating {
		s.beating = true
		s.beat(ctx)
	}
	return actor.None{}, err
}

// beat tells the subscribers that want it that the controller lives, for as long as there are any.
func (s *speaker) beat(ctx *actor.Context) {
	every, any := s.streams.Beat(ctx, actor.Event{
		Kind: actor.KindMesh, Step: agent.Beat, Status: s.phaseOf().String(), Mesh: s.of.spec.Procs.ID.String(),
		Actor: s.of.spec.actors(), Name: s.of.spec.Name, At: time.Now(),
	})
	if s.beating = any && s.of.fenced == nil; s.beating {
		ctx.After(every, s.beat)
	}
}

// Undeliverable takes a message that came back: a subscriber has gone.
func (s *speaker) Undeliverable(_ *actor.Context, r actor.Returned) error {
	s.streams.Returned(r)
	return nil
}

// Keepalive answers how the mesh is and changes nothing: a controller lives as long as its owner's
// proc.
func (s *speaker) Keepalive(_ *actor.Context, l agent.Lease) (agent.Overlay, error) {
	return s.of.table.Overlay(l.ID), nil
}

// Logs is for the hosts to answer: they hold the output of the procs.
func (s *speaker) Logs(*actor.Context, agent.LogQuery) ([]agent.LogTail, error) {
	return nil, errors.New("ask the hosts' agents: they hold the output of the procs")
}

// Ping is answered by whoever can be reached.
func (s *speaker) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

// report is what is known of any mesh.
func (s *speaker) report() Report {
	spec := s.of.spec
	r := Report{
		ID: spec.id(), Name: spec.Name, Procs: spec.Procs, Actors: spec.Actors, Region: spec.Region.String(), Phase: s.phaseOf(),
		Statuses: s.of.table.Overlay(spec.id()), Policy: spec.Policy, Subscribers: s.streams.Len(), Since: s.born,
	}
	r.Procs.Command = agent.Command{Path: r.Procs.Command.Path} // the rest may hold secrets
	for _, e := range s.of.ends {
		if e.Failed() && len(r.Failed) < maxReported {
			r.Failed = append(r.Failed, e)
		}
	}
	for _, h := range slices.SortedFunc(maps.Keys(s.of.hosts), func(a, b subjects.HostID) int { return cmp.Compare(a.String(), b.String()) }) {
		is := s.of.hosts[h]
		r.Hosts = append(r.Hosts, HostHealth{h.String(), is.State.String(), is.Reason, is.At, is.Silence + time.Since(is.At), is.Left})
	}
	return r
}
