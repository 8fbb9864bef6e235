package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// checkSender refuses an event from a sender that cannot know it (ACT-18). A host reports its own
// procs, and a process itself and its actors. Owners decide on ranks of their meshes, and report
// procs that no host can report. Members knows more about owners.
func (e Event) checkSender(by subjects.Sender) error {
	process, err := by.Process()
	if err != nil {
		return fmt.Errorf("event: want one of a castnet process, got %s from %s", e, by)
	}
	owns := by.Role().IsOneOf(subjects.Program, subjects.Operator, subjects.Proc, subjects.System)
	own := e.Proc().IsValid() && e.Proc().Lead().Process() == process
	ok := true
	switch e.Kind {
	case KindHost:
		ok = e.isOfHost(by, process)
	case KindProc:
		ok = own || e.isOfHost(by, process) || owns && e.Status != string(Running)
	case KindActor, KindAudit:
		ok = own
	case KindRank:
		ok = owns
	case KindMesh:
		ok = owns || by.Role() == subjects.Host
	}
	if !ok {
		return fmt.Errorf("event: %s cannot know it: %s", by, e)
	}
	return nil
}

// isOfHost reports whether the sender of an event is the host that it names.
func (e Event) isOfHost(by subjects.Sender, process subjects.ProcessID) bool {
	if by.Role() != subjects.Host {
		return false
	}
	h, err := subjects.ParseHostID(e.Host)
	return err == nil && h.Proc().Process() == process && h.Label() == by.Principal().Label()
}

// NoteHosts records the hosts of a mesh: perHost ranks on each, in rank order. The word of another
// host about the first procs of these ranks does not count at once.
func (ms *Members) NoteHosts(mesh subjects.MeshID, revision int, hosts []subjects.HostID, perHost int) {
	if !mesh.IsValid() || perHost <= 0 {
		return
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if g := ms.generations.mesh(mesh); g.hosts == nil || revision > g.hostsRevision {
		g.hosts = hosts
		g.hostsRevision = revision
		g.perHost = perHost
	}
}

// isElsewhere reports whether an event names another host than the known one of its ranks. A
// restarted hostd has the same label.
func (m *meshGenerations) isElsewhere(e Event) bool {
	if m == nil || e.Step == StepOwner {
		return false
	}
	by, err := subjects.ParseHostID(e.Host)
	if err != nil {
		return true
	}
	for rank := e.Rank; rank < e.Rank+max(e.Count, 1); rank++ {
		host := m.hostOf(rank, e.Gen)
		if host.IsValid() && host.Label() != by.Label() {
			return true
		}
	}
	return false
}

// hostOf returns the host of a proc; invalid if it is unknown.
func (m *meshGenerations) hostOf(rank, gen int) (host subjects.HostID) {
	if newest, later := m.newest[uint32(rank)]; later && newest.Gen == gen {
		host, _ = subjects.ParseHostID(newest.Host) // an event of the owner may name none
		return host
	}
	if gen == 0 && m.perHost > 0 && rank/m.perHost < len(m.hosts) {
		return m.hosts[rank/m.perHost]
	}
	return host
}

// NoteOwner records the process that owns a mesh. Its word about procs of the mesh counts at once.
func (ms *Members) NoteOwner(mesh subjects.MeshID, owner subjects.ProcessID) {
	if !mesh.IsValid() || !owner.IsValid() {
		return
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.generations.mesh(mesh).owner = owner
}

// trust says how far the word of a sender about a proc counts.
type trust int

const (
	trusted trust = iota
	// the owner of the mesh may be unknown here, or another one: its word counts if the proc is gone
	unknown
	untrusted
	// a host names the owner of a mesh of this process. Refusals of hosts name the next owner
	ignored
)

// senderOf is the known sender of a process; zero for an unknown one. The lock must not be held:
// the links call Down while they hold theirs.
func (ms *Members) senderOf(process subjects.ProcessID) subjects.Sender {
	if process == ms.lead.self {
		return ms.lead.sender
	}
	return ms.lead.links.SenderOf(process)
}

// trust returns how far an event counts that passed checkSender. known is the sender of its process
// so far. The lock is held.
func (ms *Members) trust(e Event, by, known subjects.Sender) trust {
	process, err := by.Process()
	id := e.Proc()
	owner := subjects.ProcessID{}
	g := ms.generations.byMesh[id.Mesh]
	if g != nil {
		owner = g.owner
	}
	switch {
	case err != nil, known.IsValid() && known != by, e.Step == StepOwner && by.Role() != subjects.Host:
		return untrusted
	case e.Step == StepOwner && owner == ms.lead.self:
		return ignored
	case by.Role() == subjects.System, process == owner && known == by:
		return trusted
	case process == owner && !e.Terminal():
		return trusted // a resize by a new owner: it only causes a question
	case by.Role() == subjects.Host && g.isElsewhere(e):
		// of a rank on another host: its own host may have been replaced
	case by.Role() == subjects.Host:
		return trusted
	case process == id.Lead().Process() && by.Role() != subjects.Proc:
		return trusted // a program; procs of a host may have a principal in common
	case process == id.Lead().Process():
	case owner == ms.lead.self:
		return untrusted
	}
	if !e.Terminal() {
		return untrusted
	}
	return unknown
}

// Bounds of the checks of ends that an unknown sender reported.
const (
	endCheckTimeout = 30 * time.Second
	maxEndChecks    = 256 // procs that are asked at a time; further ends are not believed
)

// endChecks ask the procs that have ended, as an unknown sender says.
type endChecks struct {
	mu      sync.Mutex
	running map[subjects.ProcID]struct{}
}

// checkEnd asks each process of an event whether it lives. An end counts, on the control pump, once
// the server knows no such process, or the proc confirms it. A busy proc may be silent for long.
func (ms *Members) checkEnd(e Event, by subjects.Sender, w *meshSubscription) {
	per := max(e.PerProcess, 1)
	count := max(e.Count, 1)
	for first := 0; first < count; {
		part := e
		part.Rank = e.Rank + first
		part.ProcIndex = 0
		if count > 1 {
			part.ProcIndex = part.Rank % per
		} else {
			part.ProcIndex = e.ProcIndex
		}
		part.Count = min(count-first, per-part.Rank%per)
		if e.Seq > 0 {
			part.Seq = e.Seq + uint64(first)
		}
		first += part.Count
		id := part.Proc()
		if !ms.endChecks.begin(id) {
			ms.lead.counts.malformed.Add(1)
			continue
		}
		ms.lead.workers.run(func() {
			defer ms.endChecks.end(id)
			ctx, cancel := context.WithTimeout(context.Background(), endCheckTimeout)
			defer cancel()
			now, err := ms.lead.InspectProc(ctx, id)
			if errors.Is(err, ErrNoProc) || err == nil && now.Status != Running {
				ms.lead.bus.Control().AfterReceived(func() { ms.apply(part, w) })
				return
			}
			ms.lead.counts.malformed.Add(1)
			ms.lead.sampledLog.Warn().Err(err).Stringer("event", part).Stringer("sender", by).
				Msg("a proc has not confirmed its reported end")
		})
	}
}

// begin reports whether a proc can be asked now: one question at a time.
func (c *endChecks) begin(id subjects.ProcID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, asked := c.running[id]; asked || len(c.running) >= maxEndChecks {
		return false
	}
	if c.running == nil {
		c.running = map[subjects.ProcID]struct{}{}
	}
	c.running[id] = struct{}{}
	return true
}

func (c *endChecks) end(id subjects.ProcID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, id)
}
