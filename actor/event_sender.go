package actor

import (
	"context"
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
	// the owner of the mesh may be unknown here, or another one: its word counts if the proc is silent
	unknown
	untrusted
)

// trust returns how far an event counts that passed checkSender. The lock is held.
func (ms *Members) trust(e Event, by subjects.Sender) trust {
	process, err := by.Process()
	id := e.Proc()
	owner := subjects.ProcessID{}
	if g := ms.generations.byMesh[id.Mesh]; g != nil {
		owner = g.owner
	}
	switch {
	case err != nil, e.Step == StepOwner && (by.Role() != subjects.Host || owner == ms.lead.self):
		return untrusted
	case by.Role() == subjects.Host, by.Role() == subjects.System, process == owner,
		process == id.Lead().Process():
		return trusted
	case owner == ms.lead.self, !e.Terminal():
		return untrusted
	}
	return unknown
}

// Bounds of the checks of ends that an unknown sender reported.
const (
	endCheckTimeout = 2 * time.Second
	maxEndChecks    = 256 // processes that are asked at a time; further ones are not believed
)

// endChecks ask the procs that have ended, as an unknown sender says.
type endChecks struct {
	mu      sync.Mutex
	running int
}

// checkEnd asks each process of an event whether it lives. The end of a silent one counts, on the
// control pump.
func (ms *Members) checkEnd(e Event, w *meshSubscription) {
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
		if !ms.endChecks.begin() {
			ms.lead.counts.malformed.Add(1)
			continue
		}
		ms.lead.workers.run(func() {
			defer ms.endChecks.end()
			ctx, cancel := context.WithTimeout(context.Background(), endCheckTimeout)
			defer cancel()
			if _, err := ms.lead.InspectProc(ctx, part.Proc().Lead()); err == nil {
				ms.lead.counts.malformed.Add(1)
				ms.lead.sampledLog.Warn().Stringer("event", part).Msg("a proc lives whose end was reported")
				return
			}
			ms.lead.bus.Control().AfterReceived(func() { ms.apply(part, w) })
		})
	}
}

func (c *endChecks) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running >= maxEndChecks {
		return false
	}
	c.running++
	return true
}

func (c *endChecks) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}
