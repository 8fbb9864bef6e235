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

// A host that is to be emptied gives its place to a spare one, and its ranks go there, so many at a time: each ends
// on the one, and is then started on the other as its next generation. The next one leaves when it runs, and its
// actors do (CTL-11).

// vacate asks for a host to be emptied.
type vacate struct {
	host   subjects.HostID
	atOnce int
	grace  time.Duration
	reason string
}

// vacated is that nothing of the mesh is to be moved from a host any more.
type vacated struct {
	host  subjects.HostID
	moved int
}

// move is a host that is being emptied.
type move struct {
	index  int   // of its place, which the spare has
	queue  []int // ranks that are there
	under  []int // ranks that are on their way
	moved  int
	atOnce int
	grace  time.Duration
	reason string
}

// vacate has the ranks of a host moved to a spare one, if the policy has one.
func (st *state) vacate(x *effects, v vacate) {
	if m := st.moving[v.host]; m != nil {
		m.atOnce = max(v.atOnce, 1)
		return
	}
	index := slices.Index(st.spec.Procs.Hosts, v.host)
	if index < 0 || st.restart == nil || st.stopping || st.spec.Actors != nil || !st.replace(index) {
		x.vacated = append(x.vacated, vacated{host: v.host})
		return
	}
	m := &move{index: index, atOnce: max(v.atOnce, 1), grace: v.grace, reason: cmp.Or(v.reason, "its host is drained")}
	for _, rank := range st.ranksOn(index) {
		switch st.known(rank).doing {
		case settled, starting: // the others start in the new place
			st.seat(rank).from = v.host
			m.queue = append(m.queue, rank)
		}
	}
	st.moving[v.host] = m
}

// moveOn begins moves as others are over.
func (st *state) moveOn(x *effects, now time.Time) {
	for _, host := range st.emptying() {
		m := st.moving[host]
		m.under = slices.DeleteFunc(m.under, func(rank int) bool {
			switch phase := st.phaseOf(rank); {
			case phase == agent.Running && st.known(rank).follows == 0:
				m.moved++
				return true
			default:
				return phase.Terminal()
			}
		})
		m.queue = slices.DeleteFunc(m.queue, func(rank int) bool {
			return st.phaseOf(rank).Terminal() || st.known(rank).from != host
		})
		for i := 0; i < len(m.queue) && len(m.under) < m.atOnce && !st.stopping; {
			rank := m.queue[i]
			if st.phaseOf(rank) != agent.Running {
				i++
				continue
			}
			m.queue = slices.Delete(m.queue, i, i+1)
			m.under = append(m.under, rank)
			st.setOff(x, rank, moves, m.grace, m.reason, now)
		}
		if len(m.queue) == 0 && len(m.under) == 0 {
			delete(st.moving, host)
			if !st.gone[host] { // it may take the place of another
				st.spares = append(st.spares, host)
			}
			x.vacated = append(x.vacated, vacated{host, m.moved})
		}
	}
}

func (st *state) phaseOf(rank int) agent.Phase { return st.table.Status(st.spec.id(), rank).Phase }

// deadBehind ends what a dead host has that was being emptied.
func (st *state) deadBehind(x *effects, m *move, h hostIs, now time.Time) {
	st.gone[h.Host] = true
	reason := fmt.Sprintf("host %s is dead: %s", h.Host.Label(), h.Reason)
	e := actor.Event{Status: string(actor.Failed), Reason: reason, Host: h.Host.String(), At: h.At, Step: "proc.exit.unknown"}
	ranks := slices.Clone(m.queue)
	for _, rank := range m.under {
		if st.known(rank).doing == leaving {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	x.lost = append(x.lost, st.lostWith(ranks, e)...)
	for _, rank := range ranks {
		if st.known(rank).doing == leaving {
			st.start(x, rank)
		} else {
			st.advance(x, rank, agent.Status{Phase: agent.Failed, Reason: reason}, e, now)
		}
	}
}

// at is the host that a rank is on: the one of its place, or the one that it is to leave; of an actor, where its proc is.
func (st *state) at(rank int) subjects.HostID {
	seat := st.known(rank)
	for _, h := range []subjects.HostID{seat.from, seat.home} {
		if h.IsValid() {
			return h
		}
	}
	host, _ := st.host(rank)
	return st.spec.Procs.Hosts[host]
}

// place is where ranks of the mesh are.
type place struct {
	host   int             // the index of the share
	mesh   agent.Mesh      // as it is for that host
	behind subjects.HostID // set: the host, which is being emptied
}

// places are where ranks of the mesh may be: on the host of each share, and on those that are being emptied.
func (c *controller) places(shares []int) (all []place) {
	for _, host := range shares {
		all = append(all, place{host: host, mesh: c.spec.Procs})
	}
	for _, host := range c.emptying() {
		if m := c.moving[host]; slices.Contains(shares, m.index) {
			mesh := c.spec.Procs
			mesh.Hosts = slices.Clone(mesh.Hosts)
			mesh.Hosts[m.index] = host
			all = append(all, place{m.index, mesh, host})
		}
	}
	return all
}

// emptying are the hosts that are being emptied, in an order that stays.
func (st *state) emptying() []subjects.HostID {
	return slices.SortedFunc(maps.Keys(st.moving), func(a, b subjects.HostID) int { return cmp.Compare(a.String(), b.String()) })
}

// Vacate has what a host has of the mesh moved to a spare one, and answers when that is done: how many ranks have
// moved. Whatever the policy cannot move stays.
func (c *controller) Vacate(ctx *actor.Context, v agent.Vacating) (agent.Vacated, error) {
	if c.fenced != nil {
		return agent.Vacated{}, c.fenced
	}
	if v.AtOnce < 0 || v.AtOnce > agent.MaxAtOnce {
		return agent.Vacated{}, fmt.Errorf("%d ranks at once: want 1 to %d, or 0 for 1", v.AtOnce, agent.MaxAtOnce)
	}
	c.emptied[v.Host] = append(c.emptied[v.Host], actor.Defer[agent.Vacated](ctx))
	c.askSpares(ctx, func(ctx *actor.Context) {
		if c.fenced == nil { // else all are answered
			c.hear(ctx, vacate{v.Host, v.AtOnce, v.Grace, v.Reason})
		}
	})
	return agent.Vacated{}, nil
}

// answerVacated tells who waits for a host to be emptied.
func (c *controller) answerVacated(all []vacated) {
	for _, v := range all {
		for _, a := range c.emptied[v.host] {
			a.Reply(agent.Vacated{Moved: v.moved}, nil)
		}
		delete(c.emptied, v.host)
	}
}
