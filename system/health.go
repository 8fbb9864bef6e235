package system

import (
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// maxFailed bounds the remembered failed actors of a proc.
const maxFailed = 64

// resetTimer begins the wait for the next heartbeat of a self-joined proc.
func (st *state) resetTimer(m *member) {
	if m.timer == nil {
		m.timer = st.heartbeatTimers.start(st.now, m)
		return
	}
	st.heartbeatTimers.restart(m.timer, st.now)
}

// handleHeartbeat applies a heartbeat and replies to it. The heartbeat of a proc that never joined
// has no effect.
func (st *state) handleHeartbeat(e heartbeat) {
	if m := st.procs[e.Proc]; m != nil {
		if m.assignment == nil {
			st.resetTimer(m)
		}
		if m.health == HealthExpired && m.assignment == nil {
			m.health = HealthAlive
			m.healthReason = ""
		}
		for _, name := range e.Failed {
			if len(m.failed) < maxFailed && !slices.Contains(m.failed, name) {
				m.failed = append(m.failed, name)
			}
		}
		st.healthChanged(m)
	}
	st.answer(e.from, nil, nil)
}

// severity orders healths. A lesser fault does not replace a worse one.
var severity = map[Health]int{HealthAlive: 0, HealthExpired: 1, HealthUnreachable: 2, HealthEnded: 3}

// setHealth records the health of a proc, unless the proc is unknown.
func (st *state) setHealth(m *member, health Health, why string) {
	if m == nil || severity[health] <= severity[m.health] {
		return
	}
	m.health = health
	m.healthReason = why
	st.healthChanged(m)
}

// healthChanged applies the change of a proc's health to its world, or to all worlds (WORLD-9).
func (st *state) healthChanged(m *member) {
	if m.world == nil {
		if !m.healthy() {
			st.shutDown(fmt.Sprintf("system manager proc %s: %s", m.id, m.reason()))
		}
		return
	}
	st.assess(m)
	st.updateStatus(m.world)
}

// handleHostSeen records a sign of life of a host. It asks a host that was lost for its inventory.
func (st *state) handleHostSeen(id subjects.HostID) {
	h := st.hosts[id]
	if h != nil && h.lost != "" {
		h.lost = ""
		st.emit(fetchInventory{id})
	}
}

// markHostLost marks the procs of a lost host as expired (WORLD-9). Procs that the previous
// controller ordered count, even if the host has not reported them to this one.
func (st *state) markHostLost(h *host, why string) {
	if h == nil || h.lost != "" {
		return
	}
	h.lost = why
	for _, s := range h.sortedAssignments() {
		for rank := s.first; rank < s.first+s.count; rank++ {
			m := s.world.procs[uint32(rank)]
			if m == nil && s.unconfirmed {
				m = st.addProc(s.world, s.proc(rank), s)
			}
			if m != nil && m.assignment == s {
				st.setHealth(m, HealthExpired, fmt.Sprintf("host %s is lost: %s", h.id, why))
			}
		}
	}
}

// proc returns the ID of a rank of an assignment's share.
func (s *assignment) proc(rank int) subjects.ProcID {
	return subjects.ProcID{Mesh: s.world.mesh, Rank: uint32(rank), Gen: uint32(s.gen)}
}

// applyReport applies a host's report of its share of a world. Reports about another generation
// than the ordered one are ignored.
func (st *state) applyReport(e shareReport) {
	s := st.assignmentFor(e.host, e.mesh, e.gen)
	if s == nil {
		return
	}
	w := s.world
	e.now.Each(s.first+s.count, func(rank int, now agent.Status) {
		if rank < s.first {
			return
		}
		id := s.proc(rank)
		if now.Phase == agent.Running || now.Phase == agent.ShuttingDown {
			st.addProc(w, id, s)
			return
		}
		if !now.Phase.Terminal() {
			return
		}
		m := w.procs[id.Rank]
		if m == nil || m.id != id {
			m = st.addProc(w, id, s)
		}
		if m.health != HealthEnded {
			m.health = HealthEnded
			m.healthReason = now.String()
			st.assess(m)
		}
	})
	st.updateStatus(w)
}

// assignmentFor returns the assignment of a host in the world of a mesh, if the generation is the
// ordered one; nil otherwise.
func (st *state) assignmentFor(id subjects.HostID, mesh subjects.MeshID, gen int) *assignment {
	h := st.hosts[id]
	w := st.worlds[mesh.Label()]
	if h == nil || w == nil || w.mesh != mesh {
		return nil
	}
	if s := h.assignments[w.name]; s != nil && s.count > 0 && s.gen == gen {
		return s
	}
	return nil
}

// reconcile compares the shares of a host with its assignments. It stops shares without an
// assignment, and orders missing shares (WORLD-2).
func (st *state) reconcile(e inventory) {
	has := map[*assignment]bool{}
	for _, x := range e.shares {
		s := st.assignmentFor(e.host, x.mesh, x.gen)
		if s == nil {
			s = st.adoptShare(e, x)
		}
		if s != nil {
			has[s] = true
			st.applyReport(shareReport{e.host, x.mesh, x.gen, x.now})
			continue
		}
		if st.hasAssignment(e.host, x.mesh) {
			continue // it is of an earlier generation
		}
		if x.isAlive() {
			st.emit(stopShare{
				who: memberRef{host: e.host}, mesh: x.mesh, grace: graceOf(st.stopWithin),
				why: "no world has it on this host",
			})
		}
	}
	h := st.hosts[e.host]
	if h == nil {
		return
	}
	for _, s := range h.sortedAssignments() {
		s.unconfirmed = false
		if s.count == 0 || has[s] || s.incarnation != e.incarnation || s.world.stopping != nil {
			continue
		}
		if s.orderedIn != s.incarnation { // a kept share that did not outlive its hostd
			st.renewGeneration(s)
			st.emit(saveRecord{s.world.record()})
		}
		st.orderShare(s)
		st.updateStatus(s.world)
	}
}

// hasAssignment reports whether a host has an assignment in the world of a mesh.
func (st *state) hasAssignment(id subjects.HostID, mesh subjects.MeshID) bool {
	h := st.hosts[id]
	w := st.worlds[mesh.Label()]
	return h != nil && w != nil && w.mesh == mesh && h.assignments[w.name] != nil
}

// nextSilence returns when the next self-joined proc expires without a heartbeat; false: there is
// none.
func (st *state) nextSilence() (time.Time, bool) {
	at, ok := st.heartbeatTimers.nextExpiry(st.silence)
	return st.afterHearing(at), ok
}

// nextEviction returns when the next world is evicted unless it heals; false: there is none.
func (st *state) nextEviction() (time.Time, bool) {
	at, ok := st.unhealthyTimers.nextExpiry(st.eviction)
	return st.afterHearing(at), ok
}

// afterHearing returns at, or the first time at which a silence counts again, if that is later.
func (st *state) afterHearing(at time.Time) time.Time {
	if earliest := st.listeningSince.Add(st.silence); at.Before(earliest) {
		return earliest
	}
	return at
}

// isWaiting reports whether the absence of news changes a world.
func (st *state) isWaiting() bool {
	return st.heartbeatTimers.list.Len()+st.unhealthyTimers.list.Len() > 0
}

// expireTimers runs the timers that are due.
func (st *state) expireTimers() {
	for {
		at, ok := st.nextSilence()
		if !ok || st.now.Before(at) {
			break
		}
		m := st.heartbeatTimers.oldest().(*member)
		st.heartbeatTimers.stop(&m.timer)
		st.setHealth(m, HealthExpired, fmt.Sprintf("silent for %s", st.silence))
	}
	for {
		at, ok := st.nextEviction()
		if !ok || st.now.Before(at) {
			break
		}
		st.evict(st.unhealthyTimers.oldest().(*world))
	}
	st.reserved.expire(st.reservation)
	st.expireStops()
	st.detached.reclaimExpired()
}
