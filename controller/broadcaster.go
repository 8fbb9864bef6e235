package controller

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// meshRecord is the state of a mesh of any kind.
type meshRecord struct {
	spec     Spec
	table    *agent.Table
	stopping bool               // no rank starts any more
	fenced   *agent.FencedError // set: another owner has the mesh, and this one does not act (CTL-10)

	// ends holds the final ends of ranks for later subscribers, in order of arrival (CTL-3). For a
	// mesh of hosts it holds the unhealthy hosts (CTL-17).
	ends  []actor.Event
	hosts map[subjects.HostID]presence.Change // hosts that are dead, suspect or unknown
}

// newMeshRecord returns the record of a mesh without ranks.
func newMeshRecord(s Spec) (*meshRecord, error) {
	r := &meshRecord{spec: s, table: agent.NewTable(), hosts: map[subjects.HostID]presence.Change{}}
	_, err := r.table.Create(agent.ResourceSpec{ID: s.id(), Ranks: r.ranks(), Mesh: &r.spec.Procs})
	return r, err
}

// ranks returns all ranks of the region.
func (r *meshRecord) ranks() []int {
	ranks := make([]int, r.spec.Region.NumRanks())
	for i := range ranks {
		ranks[i] = i
	}
	return ranks
}

// noteHost records the health of a host.
func (r *meshRecord) noteHost(h hostChange) {
	if h.State == presence.Alive {
		delete(r.hosts, h.Host)
		return
	}
	r.hosts[h.Host] = presence.Change(h)
}

func (r *meshRecord) setReason(rank int, reason string) {
	r.table.UpdateState(r.spec.id(), rank, func(known *agent.State) { known.Status.Reason = reason })
}

// broadcaster handles the requests common to all controllers.
type broadcaster struct {
	record    *meshRecord
	phaseOf   func() agent.Phase // the phase of the mesh
	streams   agent.Subscribers
	beating   bool
	createdAt time.Time
}

func newBroadcaster(of *meshRecord, phase func() agent.Phase) broadcaster {
	return broadcaster{record: of, phaseOf: phase, createdAt: time.Now()}
}

// fencedError returns the error of a mesh with another owner.
func (s *broadcaster) fencedError() error {
	if s.record.fenced == nil {
		return nil
	}
	return s.record.fenced
}

// isFor reports whether an ID names the mesh. A request for another ID gets an empty reply (AGT-4).
func (s *broadcaster) isFor(id string) bool { return id == s.record.spec.id() }

// Get returns the state of every rank. A fenced controller returns the new owner as an error.
func (s *broadcaster) Get(_ *actor.Context, q agent.GetRequest) ([]agent.State, error) {
	if err := s.fencedError(); err != nil {
		return nil, err
	}
	return s.record.table.States(q.ID), nil
}

// Wait replies once a condition holds for the ranks.
func (s *broadcaster) Wait(ctx *actor.Context, w agent.WaitRequest) (agent.Overlay, error) {
	if err := s.fencedError(); err != nil {
		return nil, err
	}
	return nil, s.record.table.ReplyWhen(ctx, w, 0)
}

// Stream sends changes of ranks to a port, beginning with the ended or unhealthy ranks. With a
// HeartbeatInterval it also sends heartbeats of the controller (CTL-7).
func (s *broadcaster) Stream(ctx *actor.Context, st agent.StreamRequest) (actor.None, error) {
	if st.ID != "" && !s.isFor(st.ID) {
		return actor.None{}, agent.AddSubscriber(ctx, &s.streams, st, nil)
	}
	st.ID = "" // there is one resource here
	err := s.streams.Add(ctx, st, 0, s.record.ends)
	if err == nil && st.HeartbeatInterval > 0 && !st.Cancel && !s.beating {
		s.beating = true
		s.sendHeartbeats(ctx)
	}
	return actor.None{}, err
}

// sendHeartbeats sends heartbeats until no subscriber wants them.
func (s *broadcaster) sendHeartbeats(ctx *actor.Context) {
	every, any := s.streams.SendHeartbeats(ctx, actor.Event{
		Kind: actor.KindMesh, Step: agent.StepHeartbeat, Status: s.phaseOf().String(),
		Mesh: s.record.spec.Procs.ID.String(), Actor: s.record.spec.actors(), Name: s.record.spec.Name,
		At: time.Now(),
	})
	s.beating = any && s.record.fenced == nil
	if s.beating {
		ctx.After(every, s.sendHeartbeats)
	}
}

// HandleDeadLetter drops the subscriber of a returned message.
func (s *broadcaster) HandleDeadLetter(_ *actor.Context, r actor.DeadLetter) error {
	s.streams.HandleDeadLetter(r)
	return nil
}

// Keepalive returns the statuses of the mesh. It renews nothing: a controller lives as long as its
// owner's proc.
func (s *broadcaster) Keepalive(_ *actor.Context, l agent.Lease) (agent.Overlay, error) {
	return s.record.table.Overlay(l.ID), nil
}

// Logs returns an error: the hosts hold the output of the procs.
func (s *broadcaster) Logs(*actor.Context, agent.LogsRequest) ([]agent.LogTail, error) {
	return nil, errors.New("cannot read logs from a controller: want the agent of a host")
}

// Ping always replies.
func (s *broadcaster) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

// report returns the part of a Report common to all meshes.
func (s *broadcaster) report() Report {
	spec := s.record.spec
	r := Report{
		ID: spec.id(), Name: spec.Name, Procs: spec.Procs, Actors: spec.Actors, Region: spec.Region.String(),
		Phase: s.phaseOf(), Statuses: s.record.table.Overlay(spec.id()), Policy: spec.Policy,
		Subscribers: s.streams.Len(), Since: s.createdAt,
	}
	r.Procs.Command = agent.Command{Path: r.Procs.Command.Path} // the rest may hold secrets
	for _, e := range s.record.ends {
		if e.Failed() && len(r.Failed) < maxReported {
			r.Failed = append(r.Failed, e)
		}
	}
	for _, h := range slices.SortedFunc(maps.Keys(s.record.hosts), compareHosts) {
		is := s.record.hosts[h]
		r.Hosts = append(r.Hosts, HostHealth{
			Host: h.String(), State: is.State.String(), Reason: is.Reason, Since: is.At,
			Silence: is.Silence + time.Since(is.At), Left: is.Graceful,
		})
	}
	return r
}

func compareHosts(a, b subjects.HostID) int { return cmp.Compare(a.String(), b.String()) }
