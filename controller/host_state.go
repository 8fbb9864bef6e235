package controller

import (
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// hostState is a controller's view of its mesh of hosts. Only step changes it.
type hostState struct {
	*meshRecord
	reporter      presence.EventReporter
	allocated     bool   // the mesh has its hosts
	releaseReason string // of the request to release them
	releasing     bool   // an attempt to release them is under way
	released      bool   // the hosts are released: their later changes are ignored
}

// Events of the controller of a mesh of hosts, besides hostChange.
type (
	allocated struct{ hosts []subjects.HostID } // the hosts of the mesh, by rank
	release   struct {                          // a request to release the hosts
		reason string
		within time.Duration
	}
	released struct{ err error } // the result of an attempt to release them
)

// hostEffects are the actions of a host mesh's controller after an event.
type hostEffects struct {
	events  []actor.Event // to log
	release bool          // release the hosts
}

func newHostState(s Spec) (*hostState, error) {
	r, err := newMeshRecord(s)
	return &hostState{meshRecord: r}, err
}

// step applies one event. now dates events without a date of their own.
func (st *hostState) step(heard any, now time.Time) (x hostEffects) {
	switch h := heard.(type) {
	case allocated:
		st.spec.Procs.Hosts = h.hosts
		st.allocated = true
		for _, rank := range st.ranks() {
			st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.Running})
		}
	case hostChange:
		if rank := slices.Index(st.spec.Procs.Hosts, h.Host); rank >= 0 && !st.released {
			st.noteHost(h)
			st.handleHostChange(&x, rank, h)
		}
	case release:
		st.release(&x, h.reason, now)
	case released:
		st.releasing = false
		if h.err != nil {
			st.forEachAlive(func(rank int) { st.setReason(rank, "cannot release the host: "+h.err.Error()) })
		} else {
			st.endRanks(&x, now)
		}
	}
	return x
}

// forEachAlive calls f with every live rank.
func (st *hostState) forEachAlive(f func(rank int)) {
	for _, rank := range st.ranks() {
		if !st.phaseOf(rank).Terminal() {
			f(rank)
		}
	}
}

// handleHostChange applies a change of a host. Each life of a host ends once.
func (st *hostState) handleHostChange(x *hostEffects, rank int, h hostChange) {
	e, news := st.reporter.Event(presence.Change(h))
	over := st.phaseOf(rank).Terminal()
	switch {
	case !news, over && (e.Terminal() || st.stopping || h.State == presence.Unknown):
		return
	case e.Failed():
		st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.Failed, Reason: e.Reason})
	case e.Terminal():
		st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.Stopped, Reason: e.Reason})
	case over:
		st.nextGeneration(rank)
		fallthrough
	case !st.stopping:
		reason := ""
		if e.Status != string(agent.ModeOpen) {
			reason = e.Status + ": " + e.Reason
		}
		st.setReason(rank, reason)
	}
	st.emit(x, rank, e)
}

// nextGeneration begins the next generation of a rank, whose host has returned.
func (st *hostState) nextGeneration(rank int) {
	id := st.spec.id()
	_, err := st.table.Create(agent.ResourceSpec{
		ID: id, Ranks: st.ranks(), OnlyRanks: []int{rank}, Gen: st.table.Gen(id, rank) + 1, Mesh: &st.spec.Procs,
	})
	if err == nil { // it cannot fail: the rank has ended
		st.table.Advance(id, rank, agent.Status{Phase: agent.Running})
	}
}

// emit reports and keeps a change of a host.
func (st *hostState) emit(x *hostEffects, rank int, e actor.Event) {
	e.Name = st.spec.Name
	e.Rank = rank
	e.View = rank
	e.Gen = st.table.Gen(st.spec.id(), rank)
	if p, err := st.spec.Procs.Extent.Point(rank); err == nil {
		e.Point = p.String()
	}
	x.events = append(x.events, st.changes.add(rank, e))
}

// release returns the hosts. One attempt runs at a time; after a failure the next request tries
// again.
func (st *hostState) release(x *hostEffects, reason string, now time.Time) {
	if st.released || st.releasing {
		return
	}
	st.stopping = true
	st.releaseReason = reason
	if !st.allocated {
		st.endRanks(x, now)
		return
	}
	st.forEachAlive(func(rank int) {
		st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.ShuttingDown})
		st.setReason(rank, reason)
	})
	st.releasing = true
	x.release = true
}

// endRanks ends the live ranks. Later changes of their hosts are ignored.
func (st *hostState) endRanks(x *hostEffects, now time.Time) {
	st.released = true
	st.forEachAlive(func(rank int) {
		s := agent.Status{Phase: agent.Stopped, Reason: st.releaseReason}
		st.table.Advance(st.spec.id(), rank, s)
		if st.allocated {
			host := st.spec.Procs.Hosts[rank].String()
			st.emit(x, rank, actor.Event{
				Kind: actor.KindHost, Step: "host.release", Status: s.Phase.String(), Mesh: host, Host: host,
				Reason: s.Reason, At: now,
			})
		}
	})
}

// phase is the phase of the whole mesh: that of its least advanced host. It is failed once all
// hosts have ended and one has failed.
func (st *hostState) phase() agent.Phase {
	n := st.table.Phases(st.spec.id())
	if least := n.LeastAdvanced(); least != agent.Stopped || n[agent.Failed] == 0 {
		return least
	}
	return agent.Failed
}
