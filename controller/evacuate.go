package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// An evacuated host gives its place to a spare, and its ranks move there in batches. Each rank ends
// on the old host, then starts on the new one as its next generation. The next rank leaves when it
// runs with its actors (CTL-11).

// evacuate is the event of a request to empty a host.
type evacuate struct {
	host          subjects.HostID
	maxConcurrent int
	grace         time.Duration
	reason        string
}

// evacuated reports that no rank of the mesh remains to be moved from a host.
type evacuated struct {
	host  subjects.HostID
	moved int
}

// evacuation is the state of a host under evacuation.
type evacuation struct {
	index         int   // of the host's place, now the spare's
	queue         []int // ranks still to move
	inFlight      []int // ranks that move now
	moved         int
	maxConcurrent int
	grace         time.Duration
	reason        string
}

// evacuate begins to move the ranks of a host to a spare host, if the policy has one.
// Without one, the host stops its ranks.
func (st *state) evacuate(x *effects, v evacuate, now time.Time) {
	if m := st.evacuations[v.host]; m != nil {
		m.maxConcurrent = max(v.maxConcurrent, 1)
		return
	}
	index := slices.Index(st.spec.Procs.Hosts, v.host)
	movable := index >= 0 && st.supervisor != nil && !st.stopping && st.spec.Actors == nil
	ranks := st.ranksAt(v.host, index)
	reason := cmp.Or(v.reason, "its host is drained")
	if !movable || !st.replaceHost(index) {
		if movable {
			st.stopWaiting(x, ranks, reason, now)
		}
		x.evacuated = append(x.evacuated, evacuated{host: v.host})
		return
	}
	m := &evacuation{
		index: index, maxConcurrent: max(v.maxConcurrent, 1), grace: v.grace, reason: reason,
	}
	for _, rank := range ranks {
		switch st.peek(rank).phase {
		case stable, starting: // the others start in the new place
			st.rankState(rank).oldHost = v.host
			m.queue = append(m.queue, rank)
		}
	}
	st.evacuations[v.host] = m
}

// advanceEvacuations begins the next moves as earlier ones end.
func (st *state) advanceEvacuations(x *effects, now time.Time) {
	for _, host := range st.evacuatingHosts() {
		m := st.evacuations[host]
		m.inFlight = slices.DeleteFunc(m.inFlight, func(rank int) bool {
			phase := st.phaseOf(rank)
			if phase == agent.Running && st.peek(rank).actorWaitGen == 0 {
				m.moved++
				return true
			}
			return phase.Terminal()
		})
		m.queue = slices.DeleteFunc(m.queue, func(rank int) bool {
			return st.phaseOf(rank).Terminal() || st.peek(rank).oldHost != host
		})
		for i := 0; i < len(m.queue) && len(m.inFlight) < m.maxConcurrent && !st.stopping; {
			rank := m.queue[i]
			if st.phaseOf(rank) != agent.Running {
				i++
				continue
			}
			m.queue = slices.Delete(m.queue, i, i+1)
			m.inFlight = append(m.inFlight, rank)
			st.beginMove(x, rank, relocation, m.grace, m.reason, now)
		}
		if len(m.queue) == 0 && len(m.inFlight) == 0 {
			delete(st.evacuations, host)
			if _, died := st.diedHosts[host]; !died {
				st.spares.hosts = append(st.spares.hosts, host)
			}
			x.evacuated = append(x.evacuated, evacuated{host, m.moved})
		}
	}
}

func (r *meshRecord) phaseOf(rank int) agent.Phase { return r.table.Status(r.spec.id(), rank).Phase }

// handleEvacuatedDeath ends the ranks left on a host that died during its evacuation.
func (st *state) handleEvacuatedDeath(x *effects, m *evacuation, h hostChange, now time.Time) {
	st.diedHosts[h.Host] = false
	reason := fmt.Sprintf("host %s is dead: %s", h.Host.Label(), h.Reason)
	e := lostProcEvent(h.Host, reason, h.At)
	ranks := slices.Clone(m.queue)
	for _, rank := range m.inFlight {
		if st.peek(rank).phase == departing {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	x.procEnds = append(x.procEnds, st.procEnds(ranks, e)...)
	for _, rank := range ranks {
		if st.peek(rank).phase == departing {
			st.startRank(x, rank)
		} else {
			st.advance(x, rank, agent.Status{Phase: agent.Failed, Reason: reason}, e, now)
		}
	}
}

// ranksAt returns the ranks of a place that are on its host, not still on one under evacuation.
func (st *state) ranksAt(host subjects.HostID, index int) []int {
	return slices.DeleteFunc(st.ranksOn(index), func(rank int) bool { return st.hostOf(rank) != host })
}

// returnToEvacuated gives a place whose host died, without another spare, back to the host under
// evacuation. The ranks there stay.
func (st *state) returnToEvacuated(x *effects, index int) {
	for _, host := range st.evacuatingHosts() {
		m := st.evacuations[host]
		if m.index != index {
			continue
		}
		st.spec.Procs.Hosts = slices.Clone(st.spec.Procs.Hosts)
		st.spec.Procs.Hosts[index] = host
		for _, rank := range m.queue {
			st.rankState(rank).oldHost = subjects.HostID{}
		}
		delete(st.evacuations, host)
		x.evacuated = append(x.evacuated, evacuated{host, m.moved})
	}
}

// hostOf returns the host on which a rank runs: the host of its place, or during a move its old
// host. For an actor it is the host of its proc.
func (st *state) hostOf(rank int) subjects.HostID {
	seat := st.peek(rank)
	for _, h := range []subjects.HostID{seat.oldHost, seat.procHost} {
		if h.IsValid() {
			return h
		}
	}
	host, _ := st.hostIndex(rank)
	return st.spec.Procs.Hosts[host]
}

// location is a host with ranks of the mesh.
type location struct {
	host       int             // the index of the share
	mesh       agent.Mesh      // with that host in its place
	evacuating subjects.HostID // set: the host is under evacuation
}

// locations returns the possible hosts of ranks: the host of each share, and hosts under
// evacuation.
func (c *controller) locations(shares []int) (all []location) {
	for _, host := range shares {
		all = append(all, location{host: host, mesh: c.spec.Procs})
	}
	for _, host := range c.evacuatingHosts() {
		if m := c.evacuations[host]; slices.Contains(shares, m.index) {
			mesh := c.spec.Procs
			mesh.Hosts = slices.Clone(mesh.Hosts)
			mesh.Hosts[m.index] = host
			all = append(all, location{m.index, mesh, host})
		}
	}
	return all
}

// evacuatingHosts returns the hosts under evacuation, in a stable order.
func (st *state) evacuatingHosts() []subjects.HostID {
	return slices.SortedFunc(maps.Keys(st.evacuations), compareHosts)
}

// Evacuate moves the ranks of a host to a spare and replies at the end with the number of moved
// ranks. Ranks that the policy cannot move stay.
func (c *controller) Evacuate(ctx *actor.Context, v agent.EvacuateRequest) (agent.EvacuateResponse, error) {
	if c.fenced != nil {
		return agent.EvacuateResponse{}, c.fenced
	}
	if v.MaxConcurrent < 0 || v.MaxConcurrent > agent.MaxConcurrentMoves {
		return agent.EvacuateResponse{}, fmt.Errorf("%d ranks at once: want 1 to %d, or 0 for 1",
			v.MaxConcurrent, agent.MaxConcurrentMoves)
	}
	c.evacuationWaiters[v.Host] = append(c.evacuationWaiters[v.Host], actor.Defer[agent.EvacuateResponse](ctx))
	c.askSpares(ctx, func(ctx *actor.Context) {
		if c.fenced == nil { // else checkFenced has replied
			c.handle(ctx, evacuate{v.Host, v.MaxConcurrent, v.Grace, v.Reason})
		}
	})
	return agent.EvacuateResponse{}, nil
}

// answerEvacuated replies to the waiters of finished evacuations.
func (c *controller) answerEvacuated(all []evacuated) {
	for _, v := range all {
		for _, a := range c.evacuationWaiters[v.host] {
			a.Reply(agent.EvacuateResponse{Moved: v.moved}, nil)
		}
		delete(c.evacuationWaiters, v.host)
	}
}
