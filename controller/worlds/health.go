package worlds

import (
	"container/list"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// maxFailed bounds the failed actors of a proc that are remembered.
const maxFailed = 64

// hear begins the wait for the next word of a host or a proc.
func (st *state) hear(clock **list.Element, who any) {
	if *clock == nil {
		*clock = st.heard.start(st.now, who)
		return
	}
	st.heard.again(*clock, st.now)
}

// hearHost begins it for a host, unless others tell when one is lost.
func (st *state) hearHost(h *host) {
	if !st.presence {
		st.hear(&h.clock, h)
	}
}

// beat takes a heartbeat. Whoever says it is answered; that of a proc that never joined means nothing.
func (st *state) beat(e beat) {
	if m := st.procs[e.Proc]; m != nil {
		if m.seat == nil {
			st.hear(&m.clock, m)
		}
		if m.health == Expired && m.seat == nil {
			m.health, m.why = Alive, ""
		}
		for _, name := range e.Failed {
			if len(m.failed) < maxFailed && !slices.Contains(m.failed, name) {
				m.failed = append(m.failed, name)
			}
		}
		st.changed(m)
	}
	st.answer(e.from, nil, nil)
}

// severity orders healths: a proc gets no better by a lesser fault.
var severity = map[Health]int{Alive: 0, Expired: 1, Unreachable: 2, Ended: 3}

// mark notes what is wrong with a proc; one that is not known is nobody's.
func (st *state) mark(m *member, health Health, why string) {
	if m == nil || severity[health] <= severity[m.health] {
		return
	}
	m.health, m.why = health, why
	st.changed(m)
}

// changed sees to what the health of a proc means for its world, or for all (WORLD-9).
func (st *state) changed(m *member) {
	if m.world == nil {
		if !m.healthy() {
			st.halt(fmt.Sprintf("proc %s, without which there is no system: %s", m.id, m.reason()))
		}
		return
	}
	st.assess(m)
	st.settle(m.world)
}

// seen counts a host as heard. One that was lost is asked what it still has.
func (st *state) seen(id subjects.HostID) {
	h := st.hosts[id]
	if h == nil {
		return
	}
	st.hearHost(h)
	if h.lost != "" {
		h.lost = ""
		st.do(look{id})
	}
}

// lost makes the procs that a host launched expired: nobody watches them (WORLD-9). Those that the controller
// before ordered count as launched when the host has not said so to this one: it is lost with whatever it has.
func (st *state) lost(h *host, why string) {
	if h == nil || h.lost != "" {
		return
	}
	h.lost = why
	st.heard.stop(&h.clock)
	for _, s := range h.inOrder() {
		for rank := s.first; rank < s.first+s.count; rank++ {
			m := s.world.procs[uint32(rank)]
			if m == nil && s.unseen {
				m = st.arrive(s.world, s.proc(rank), s)
			}
			if m != nil && m.seat == s {
				st.mark(m, Expired, fmt.Sprintf("host %s is lost: %s", h.id, why))
			}
		}
	}
}

// proc is the ID of a rank of a seat's share.
func (s *seat) proc(rank int) subjects.ProcID {
	return subjects.ProcID{Mesh: s.world.mesh, Rank: uint32(rank), Gen: uint32(s.gen)}
}

// reported takes what a host says of its share of a world; what it says of another generation than the
// one that was ordered is of the past.
func (st *state) reported(e reported) {
	s := st.seatFor(e.host, e.mesh, e.gen)
	if s == nil {
		return
	}
	w := s.world
	e.now.Each(s.first+s.count, func(rank int, now agent.Status) {
		if rank < s.first {
			return
		}
		id := s.proc(rank)
		switch {
		case now.Phase == agent.Running || now.Phase == agent.ShuttingDown:
			st.arrive(w, id, s)
		case now.Phase.Terminal():
			m := w.procs[id.Rank]
			if m == nil || m.id != id {
				m = st.arrive(w, id, s)
			}
			if m.health != Ended {
				m.health, m.why = Ended, now.String()
				st.assess(m)
			}
		}
	})
	st.settle(w)
}

// seatFor is the seat of a host in the world of a mesh, in the generation that was ordered; nil: it has none.
func (st *state) seatFor(id subjects.HostID, mesh subjects.MeshID, gen int) *seat {
	h, w := st.hosts[id], st.worlds[mesh.Label()]
	if h == nil || w == nil || w.mesh != mesh {
		return nil
	}
	if s := h.seats[w.name]; s != nil && s.count > 0 && s.gen == gen {
		return s
	}
	return nil
}

// inventory compares what a host has with what it is to have: what no world has there is stopped, and what it
// lacks is ordered (WORLD-10).
func (st *state) inventory(e inventory) {
	has := map[*seat]bool{}
	for _, x := range e.has {
		s := st.seatFor(e.host, x.mesh, x.gen)
		if s == nil {
			s = st.adoptShare(e, x)
		}
		if s != nil {
			has[s] = true
			st.reported(reported{e.host, x.mesh, x.gen, x.now})
			continue
		}
		if w := st.worlds[x.mesh.Label()]; w != nil && w.mesh == x.mesh && st.hosts[e.host] != nil && st.hosts[e.host].seats[w.name] != nil {
			continue // an earlier generation of its own
		}
		if slices.ContainsFunc(x.now, func(r agent.Run) bool { return !r.Status.Phase.Terminal() }) {
			st.do(halt{who: party{host: e.host}, mesh: x.mesh, grace: graceOf(st.stopWithin), why: "no world has it on this host"})
		}
	}
	h := st.hosts[e.host]
	if h == nil {
		return
	}
	for _, s := range h.inOrder() {
		s.unseen = false
		if s.count == 0 || has[s] || s.life != e.life || s.world.ending != nil {
			continue
		}
		if s.born != s.life { // it was to outlive that, and has not
			st.renew(s)
			st.do(save{s.world.record()})
		}
		st.order(s)
		st.settle(s.world)
	}
}

// expire does what is due.
func (st *state) expire() {
	for {
		what, ok := st.heard.over(st.now, st.silence)
		if !ok {
			break
		}
		why := fmt.Sprintf("nothing was heard for %s", st.silence)
		switch x := what.(type) {
		case *host:
			st.lost(x, why)
		case *member:
			st.heard.stop(&x.clock)
			st.mark(x, Expired, why)
		}
	}
	for {
		what, ok := st.sick.over(st.now, st.eviction)
		if !ok {
			break
		}
		st.evict(what.(*world))
	}
	for {
		what, ok := st.keeping.over(st.now, st.reservation)
		if !ok {
			break
		}
		st.unreserve(what.(*reservation))
	}
	st.overdue()
	st.takeBack()
}
