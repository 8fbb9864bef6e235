package controller

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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
	changes  eventLog
	hosts    map[subjects.HostID]presence.Change // hosts that are dead, suspect or unknown

	// announced is the mesh as others know it while hosts are added or removed; nil: spec.Procs.
	announced *agent.Mesh
	// unannounced is the first of the ranks that are being added, which have no events; 0: none.
	unannounced int
}

// newMeshRecord returns the record of a mesh without ranks.
func newMeshRecord(s Spec) (*meshRecord, error) {
	r := &meshRecord{spec: s, table: agent.NewTable(), hosts: map[subjects.HostID]presence.Change{}}
	r.changes.latest = map[int]actor.Event{}
	_, err := r.table.Create(agent.ResourceSpec{ID: s.id(), Ranks: r.ranks(), Mesh: &r.spec.Procs})
	return r, err
}

// eventLog numbers the events of a mesh, and keeps the latest one of each rank (CTL-3).
type eventLog struct {
	version uint64              // the number of the last event
	latest  map[int]actor.Event // by rank; wholeMesh: about the mesh
}

// wholeMesh stands for all ranks in an eventLog.
const wholeMesh = -1

// add numbers an event about a rank, and keeps it.
func (l *eventLog) add(rank int, e actor.Event) actor.Event {
	l.version++
	e.Seq = l.version
	l.latest[rank] = e
	return e
}

// after returns the kept events after a version, in their order.
func (l *eventLog) after(version uint64) (events []actor.Event) {
	if version >= l.version {
		return nil
	}
	for _, e := range l.latest {
		if e.Seq > version {
			events = append(events, e)
		}
	}
	slices.SortFunc(events, func(a, b actor.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return events
}

// maxListBytes bounds the events in one reply, so that it fits into a message of the control
// connection.
const maxListBytes = 32 << 10

// list returns a page of the kept events after a version. An event that is too long for a page
// loses its last output, details and causes.
func (l *eventLog) list(version uint64) (page agent.EventList, err error) {
	if version > l.version {
		return page, fmt.Errorf("cannot list events after %d: want 0 to %d", version, l.version)
	}
	size := 0
	for _, e := range agent.JoinRuns(l.after(version)) {
		if sizeOf(e) > maxListBytes {
			e.StderrTail = nil
			e.Detail = nil
			e.Cause = nil
		}
		size += sizeOf(e)
		if size > maxListBytes && len(page.Events) > 0 {
			page.More = true
			return page, nil
		}
		page.Events = append(page.Events, e)
		page.Version = e.Seq + uint64(max(e.Count, 1)) - 1
	}
	page.Version = l.version
	return page, nil
}

// sizeOf estimates the encoded size of an event.
func sizeOf(e actor.Event) int {
	b, err := json.Marshal(e)
	if err != nil {
		return maxListBytes + 1 // the event loses what cannot be encoded
	}
	return len(b)
}

// description returns the mesh as others know it, on its present hosts.
func (r *meshRecord) description() agent.Mesh {
	if r.announced == nil {
		return r.spec.Procs
	}
	m := *r.announced
	m.Hosts = slices.Clone(r.spec.Procs.Hosts[:len(m.Hosts)])
	return m
}

// isUnannounced reports whether others do not know a rank yet.
func (r *meshRecord) isUnannounced(rank int) bool { return r.unannounced > 0 && rank >= r.unannounced }

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

// recordServer handles the requests common to all controllers.
type recordServer struct {
	record    *meshRecord
	phaseOf   func() agent.Phase // the phase of the mesh
	createdAt time.Time
}

func newRecordServer(of *meshRecord, phase func() agent.Phase) recordServer {
	return recordServer{record: of, phaseOf: phase, createdAt: time.Now()}
}

// fencedError returns the error of a mesh with another owner.
func (s *recordServer) fencedError() error {
	if s.record.fenced == nil {
		return nil
	}
	return s.record.fenced
}

// isFor reports whether an ID names the mesh. A request for another ID gets an empty reply (AGT-3).
func (s *recordServer) isFor(id string) bool { return id == s.record.spec.id() }

// Get returns the state of every rank. A fenced controller returns the new owner as an error.
func (s *recordServer) Get(_ *actor.Context, q agent.GetRequest) ([]agent.State, error) {
	if err := s.fencedError(); err != nil {
		return nil, err
	}
	states := s.record.table.States(q.ID)
	if len(states) > 0 {
		m := s.record.description()
		states[0].Mesh = m.Public() // anybody may ask for it
	}
	return states, nil
}

// Wait replies once a condition holds for the ranks.
func (s *recordServer) Wait(ctx *actor.Context, w agent.WaitRequest) (agent.Overlay, error) {
	if err := s.fencedError(); err != nil {
		return nil, err
	}
	return nil, s.record.table.ReplyWhen(ctx, w, 0)
}

// listEvents returns the latest event of each rank that changed after a version (CTL-3).
func (s *recordServer) listEvents(q agent.ListEventsRequest) (agent.EventList, error) {
	l, err := s.record.changes.list(q.After)
	l.Ranks = cmp.Or(s.record.unannounced, s.record.spec.Procs.Extent.NumRanks())
	return l, err
}

// Keepalive returns the statuses of the mesh. It renews nothing: a controller lives as long as its
// owner's proc.
func (s *recordServer) Keepalive(_ *actor.Context, l agent.Lease) (agent.Overlay, error) {
	return s.record.table.Overlay(l.ID), nil
}

// Logs returns an error: the hosts hold the output of the procs.
func (s *recordServer) Logs(*actor.Context, agent.LogsRequest) ([]agent.LogTail, error) {
	return nil, errors.New("cannot read logs from a controller: want the agent of a host")
}

// Ping always replies.
func (s *recordServer) Ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

// report returns the part of a Report common to all meshes.
func (s *recordServer) report() Report {
	spec := s.record.spec
	if s.record.announced != nil { // of a whole mesh
		spec.Procs = s.record.description()
		spec.Region = spec.Procs.Extent.Region()
	}
	r := Report{
		ID: spec.id(), Name: spec.Name, Procs: spec.Procs, Actors: spec.Actors, Region: spec.Region.String(),
		Phase: s.phaseOf(), Statuses: s.record.table.Overlay(spec.id()), RestartPolicy: spec.RestartPolicy,
		Since: s.createdAt,
	}
	r.Procs = *r.Procs.Public()
	for _, e := range s.record.changes.after(0) {
		if e.Failed() && len(r.Failed) < maxReported {
			r.Failed = append(r.Failed, e)
		}
	}
	for _, h := range slices.SortedFunc(maps.Keys(s.record.hosts), compareHosts) {
		is := s.record.hosts[h]
		r.Hosts = append(r.Hosts, HostHealth{
			Host: h.String(), State: is.State.String(), Reason: is.Reason, Since: is.At,
			Silence: is.Silence + time.Since(is.At), Graceful: is.Graceful,
		})
	}
	return r
}

func compareHosts(a, b subjects.HostID) int { return cmp.Compare(a.String(), b.String()) }
