package actor

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// Members is what a process knows of the members of proc meshes: the proc that has each rank
// (ACT-11), the procs that have ended (DEL-5), and the listeners to both. The procs of a process
// share it. It is for packages of castnet that carry casts or own meshes; programs do not need it.
type Members struct {
	lead        *Proc                                   // the first proc of the process
	unreachable callbacks[func(subjects.ProcID, error)] // see OnUnreachable

	mu            sync.RWMutex // guards the fields below
	generations   generations
	dead          deadProcs
	ending        []deathRange // ends whose procs are not marked down yet
	subscriptions map[subjects.MeshID]*meshSubscription
	endChecks     endChecks
	ended         []subjects.MeshID // followed meshes that are over, oldest first
}

// maxEndedMeshes bounds the followed meshes that are over. Beyond it the oldest one is forgotten:
// its subscription, generations and ends.
const maxEndedMeshes = 64

// Members returns what the process of the proc knows of the members of proc meshes.
func (p *Proc) Members() *Members { return &p.process.members }

// meshSubscription is the process's only subscription to the proc events of one mesh. Each event is
// decoded once, for the proc itself and for all listeners.
type meshSubscription struct {
	ready     chan struct{} // closed once end and err are set
	end       func()
	err       error
	listeners callbacks[func(Event)]

	// guarded by the lock of Members: the known size of the mesh; events about other ranks are
	// ignored
	ranks int
	left  bool // its only process said goodbye
}

// FollowMesh subscribes this proc to the deaths of a mesh's first ranks, before any message is sent
// there. The first call for a mesh waits for the server; it must not run on a pump.
func (ms *Members) FollowMesh(mesh subjects.MeshID, ranks int) error {
	if !mesh.IsValid() {
		return errorf(CodeInvalid, "", "", "follow a mesh: want a valid ID, got the zero value")
	}
	ms.mu.Lock()
	w, known := ms.subscriptions[mesh]
	if !known {
		w = &meshSubscription{ready: make(chan struct{})}
		ms.subscriptions[mesh] = w
	}
	w.ranks = max(w.ranks, ranks)
	w.left = false
	ms.mu.Unlock()
	if !known {
		w.end, w.err = ms.lead.inbox.subscribe(ms.lead.bus.Control(), ms.receiveProcEvent,
			ProcEvents(ms.lead.space, mesh)...)
		if w.err != nil {
			ms.mu.Lock()
			delete(ms.subscriptions, mesh) // the next sender tries again
			ms.mu.Unlock()
		}
		close(w.ready)
	}
	<-w.ready
	if w.err != nil {
		return busError("", "", fmt.Errorf("follow mesh %s: %w", mesh, w.err))
	}
	return nil
}

// NoteRanks records the least number of ranks of a followed mesh. Unlike FollowMesh it never waits.
func (ms *Members) NoteRanks(mesh subjects.MeshID, ranks int) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if w := ms.subscriptions[mesh]; w != nil {
		w.ranks = max(w.ranks, ranks)
	}
}

// ListenProcs is FollowMesh, and also calls f with each event about a proc of those ranks, in
// order. f runs on the control pump and must not block it. The returned function ends it.
func (ms *Members) ListenProcs(mesh subjects.MeshID, ranks int, f func(Event)) (cancel func(), err error) {
	var deafen func()
	for deafen == nil { // again, if it was forgotten meanwhile
		if err := ms.FollowMesh(mesh, ranks); err != nil {
			return nil, err
		}
		ms.mu.RLock()
		if w := ms.subscriptions[mesh]; w != nil {
			deafen = w.listeners.add(f)
		}
		ms.mu.RUnlock()
	}
	return func() {
		deafen()
		ms.noteOver(mesh)
	}, nil
}

// Follows reports whether this proc follows a mesh. It stops some time after the end of the mesh.
func (ms *Members) Follows(mesh subjects.MeshID) bool {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	return ms.subscriptions[mesh] != nil
}

// noteOver records that a followed mesh is over, if it is, and forgets the oldest such mesh beyond
// maxEndedMeshes.
func (ms *Members) noteOver(mesh subjects.MeshID) {
	ms.mu.Lock()
	if ms.isOver(mesh) && !slices.Contains(ms.ended, mesh) {
		ms.ended = append(ms.ended, mesh)
	}
	var forgotten *meshSubscription
	if len(ms.ended) > maxEndedMeshes {
		oldest := ms.ended[0]
		ms.ended = slices.Delete(ms.ended, 0, 1)
		if ms.isOver(oldest) { // still
			forgotten = ms.subscriptions[oldest]
			delete(ms.subscriptions, oldest)
			ms.dead.forget(oldest)
			ms.generations.forget(oldest)
		}
	}
	ms.mu.Unlock()
	if forgotten != nil {
		forgotten.end()
	}
}

// isOver reports whether a followed mesh has no listeners, and its ranks have no proc any more. The
// lock is held.
func (ms *Members) isOver(mesh subjects.MeshID) bool {
	w := ms.subscriptions[mesh]
	if w == nil || w.listeners.some.Load() {
		return false
	}
	select {
	case <-w.ready:
	default:
		return false
	}
	return w.left || ms.dead.cover(mesh, w.ranks, &ms.generations)
}

// noteLeft records that the links have forgotten a process that said goodbye.
func (ms *Members) noteLeft(process subjects.ProcessID) {
	lead := process.Proc()
	for _, q := range ms.lead.process.procs() {
		q.outbox.dropDead(func(id subjects.ProcID) bool { return id.Lead() == lead })
	}
	ms.mu.Lock()
	if w := ms.subscriptions[lead.Mesh]; w != nil && w.ranks == 1 {
		w.left = true
	}
	ms.mu.Unlock()
	ms.noteOver(lead.Mesh)
}

// receiveProcEvent handles an event about ended or replaced procs of a mesh, on the control pump.
func (ms *Members) receiveProcEvent(m bus.Msg) {
	e, err := DecodeEventFrom(ms.lead.space, m)
	if err != nil {
		ms.lead.inbox.malformed(m, err)
		return
	}
	id := e.Proc()
	if e.Kind != KindProc || !id.IsValid() {
		return
	}
	s, err := ms.lead.space.Parse(m.Subject)
	if err != nil {
		ms.lead.inbox.malformed(m, err)
		return
	}
	var known subjects.Sender
	if process, err := s.Sender.Process(); err == nil {
		known = ms.senderOf(process)
	}
	ms.mu.Lock()
	w := ms.subscriptions[id.Mesh]
	if w == nil {
		ms.mu.Unlock()
		return
	}
	e, in := e.ClampRanks(w.ranks)
	by := ms.trust(e, s.Sender, known)
	ms.mu.Unlock()
	switch {
	case !in, by == ignored:
	case by == trusted:
		ms.apply(e, w)
	case by == unknown:
		ms.checkEnd(e, s.Sender, w)
	default:
		ms.lead.inbox.malformed(m, fmt.Errorf("event: %s does not own the mesh: %s", s.Sender, e))
	}
}

// apply applies an event that counts, on the control pump.
func (ms *Members) apply(e Event, w *meshSubscription) {
	id := e.Proc()
	switch {
	case e.Terminal(): // its earlier messages come first (DEL-5)
		ms.NoteEnd(e)
	case e.Step == StepResize:
		ms.noteRevision(id.Mesh, e.Revision)
	case e.Step == StepOwner:
		if owner, err := subjects.ParseActorID(e.Object); err == nil {
			ms.NoteOwner(id.Mesh, owner.Proc.Process())
		}
	case e.Status == string(Running):
		e.Each(ms.NoteGeneration)
	}
	for _, f := range w.listeners.list() { // supervision waits for no data
		(*f)(e)
	}
}

// NoteEnd records that procs have ended, and marks them down after the messages that the server
// already has from them (DEL-5).
func (ms *Members) NoteEnd(e Event) {
	n := deathRangeOf(e)
	ms.mu.Lock()
	ms.ending = append(ms.ending, n)
	ms.mu.Unlock()
	ms.lead.bus.Data().AfterReceived(func() {
		ms.MarkDown(e)
		ms.mu.Lock()
		defer ms.mu.Unlock()
		ms.ending = slices.DeleteFunc(ms.ending, func(m deathRange) bool { return m.source == n.source })
	})
}

// IsEnded reports whether the end of a proc, or of its process, is known. Down knows it up to 1 s
// later, after the proc's earlier messages.
func (ms *Members) IsEnded(id subjects.ProcID) bool {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	if _, down := ms.downLocked(id); down {
		return true
	}
	return slices.ContainsFunc(ms.ending, func(n deathRange) bool {
		return n.contains(id) || n.contains(id.Lead())
	})
}

// MarkDown records that procs are dead: their messages are dropped, none are sent to them (DEL-5),
// and waiting calls to them fail. A second event about a proc changes nothing. One event is one
// pass, for any number of ranks.
func (ms *Members) MarkDown(e Event) {
	if !e.Proc().IsValid() {
		return
	}
	ms.mu.Lock()
	news := ms.dead.add(deathRangeOf(e), ms.lead.id, ms.generations.isNewest)
	if len(news) > 0 {
		ms.generations.mesh(news[0].mesh).changes++
	}
	ms.mu.Unlock()
	if len(news) == 0 {
		return
	}
	for _, n := range news {
		n.each(func(id subjects.ProcID) {
			if id.Index == 0 { // else its process goes on without it
				ms.lead.links.MarkDead(id.Process(), procDead(id.String(), "", e))
			}
		})
	}
	among := func(id subjects.ProcID) bool {
		return slices.ContainsFunc(news, func(n deathRange) bool {
			return n.contains(id) || n.contains(id.Lead())
		})
	}
	ms.lead.process.pending.cancelFrom(among)
	for _, q := range ms.lead.process.procs() {
		q.outbox.dropDead(func(id subjects.ProcID) bool {
			return slices.ContainsFunc(news, func(n deathRange) bool { return n.contains(id) })
		})
		q.ports.failCalls(func(c *call) bool { return among(c.to.Proc) },
			func(c *call) error { return procDead(c.to.Proc.String(), "", e) })
	}
	for _, n := range news {
		n.each(func(id subjects.ProcID) { ms.notifyUnreachable(id, procDead(id.String(), "", e)) })
	}
	ms.noteOver(e.Proc().Mesh)
}

func procDead(actor, endpoint string, e Event) *Error {
	reason := e.Reason
	if reason == "" {
		reason = e.Status
	}
	err := errorf(CodeProcDead, actor, endpoint, "the proc is gone: %s", reason)
	err.Event = &e
	return err
}

// Down returns the event that ended a proc, or its process, if known. Listeners receive an end
// before Down returns it. Down first waits for the proc's earlier messages (DEL-5): until the
// server has answered on the data connection, or for 1 s.
func (ms *Members) Down(id subjects.ProcID) (Event, bool) {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	return ms.downLocked(id)
}

func (ms *Members) downLocked(id subjects.ProcID) (Event, bool) {
	n, ok := ms.dead.find(id)
	if !ok && id.Index > 0 {
		id = id.Lead()
		n, ok = ms.dead.find(id)
	}
	if !ok {
		return Event{}, false
	}
	return n.event(id), true
}

// DeadProcs returns the events of dead procs of a mesh whose rank has no later generation.
func (ms *Members) DeadProcs(mesh subjects.MeshID) (all []Event) {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	for _, n := range ms.dead.all(mesh) {
		n.each(func(id subjects.ProcID) {
			if _, later := ms.generations.successor(id); !later {
				all = append(all, n.event(id))
			}
		})
	}
	return all
}

// NoteGeneration records a running proc. If its generation is the latest known one, the rank
// belongs to it from now on (ACT-11). Otherwise nothing changes.
func (ms *Members) NoteGeneration(e Event) {
	id := e.Proc()
	if !id.IsValid() || id.Gen == 0 {
		return
	}
	e.StderrTail = nil
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.generations.note(id, e)
}

// LatestGeneration returns the proc that has the rank of id now, as far as this process knows: id
// itself, or one of a later generation.
func (ms *Members) LatestGeneration(id subjects.ProcID) subjects.ProcID {
	if e, ok := ms.Successor(id); ok {
		return e.Proc()
	}
	return id
}

// Successor returns the event of the newest proc of id's rank, if its generation is later than
// id's.
func (ms *Members) Successor(id subjects.ProcID) (Event, bool) {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	return ms.generations.successor(id)
}

// Successors returns the events of all procs in a mesh that replaced the first one of their rank.
func (ms *Members) Successors(mesh subjects.MeshID) []Event {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	if g := ms.generations.byMesh[mesh]; g != nil {
		return slices.Collect(maps.Values(g.newest))
	}
	return nil
}

// ChangeCount counts the known changes to the ranks of a mesh. If it is unchanged, LatestGeneration
// and DeadProcs return the same as before.
func (ms *Members) ChangeCount(mesh subjects.MeshID) uint64 {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	if g := ms.generations.byMesh[mesh]; g != nil {
		return g.changes
	}
	return 0
}

// noteRevision records that a mesh has grown or shrunk.
func (ms *Members) noteRevision(mesh subjects.MeshID, revision int) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.generations.mesh(mesh).revision = revision
}

// Revision returns the revision of a mesh that the last event reported: 0 before its first Grow or
// Shrink.
func (ms *Members) Revision(mesh subjects.MeshID) int {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	if g := ms.generations.byMesh[mesh]; g != nil {
		return g.revision
	}
	return 0
}

// OnUnreachable calls f for every proc found to be dead, absent, or behind a broken link, with the
// reason. The first proc of a process stands for all of them. f runs on a pump and must not block.
// The returned function ends it.
func (ms *Members) OnUnreachable(f func(subjects.ProcID, error)) (cancel func()) {
	mustHold(f != nil, "OnUnreachable", "a function, got nil")
	return ms.unreachable.add(f)
}

func (ms *Members) notifyUnreachable(id subjects.ProcID, reason error) {
	for _, f := range ms.unreachable.list() {
		(*f)(id, reason)
	}
}
