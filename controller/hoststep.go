package controller

import (
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/subjects"
)

// hostState is what a controller knows of its mesh of hosts. step is the only thing that changes it.
type hostState struct {
	*record
	teller presence.Teller
	held   bool   // the hosts are there
	why    string // they are to be given back
	giving bool   // they are being given back
	given  bool   // they are not its own any more: nothing is heard of them
}

// What the controller of a mesh of hosts hears, besides hostIs.
type (
	hold struct{ hosts []subjects.HostID } // they are there, by rank
	halt struct {                          // they are to be given back
		reason string
		within time.Duration
	}
	given struct{ err error } // they have been, or could not be
)

// hostEffects are what the controller of a mesh of hosts has to do about what it heard.
type hostEffects struct {
	news []actor.Event // to be told to the streams
	give bool          // the hosts are to be given back
}

func newHostState(s Spec) (*hostState, error) {
	r, err := newRecord(s)
	return &hostState{record: r}, err
}

// step takes one thing that was heard: a hostIs, hold, halt or given. now dates what has no date of its own.
func (st *hostState) step(heard any, now time.Time) (x hostEffects) {
	switch h := heard.(type) {
	case hold:
		st.spec.Procs.Hosts, st.held = h.hosts, true
		for _, rank := range st.ranks() {
			st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.Running})
		}
	case hostIs:
		if rank := slices.Index(st.spec.Procs.Hosts, h.Host); rank >= 0 && !st.given {
			st.isNow(h)
			st.hostIs(&x, rank, h)
		}
	case halt:
		st.halt(&x, h.reason, now)
	case given:
		st.giving = false
		if h.err != nil {
			st.each(func(rank int) { st.describe(rank, "not given back: "+h.err.Error()) })
		} else {
			st.leave(&x, now)
		}
	}
	return x
}

// each calls f with every rank that has not ended.
func (st *hostState) each(f func(rank int)) {
	for _, rank := range st.ranks() {
		if !st.table.Status(st.spec.id(), rank).Phase.Terminal() {
			f(rank)
		}
	}
}

// hostIs takes what is known of a host. Its end counts once for each time that it was there.
func (st *hostState) hostIs(x *hostEffects, rank int, h hostIs) {
	e, news := st.teller.Tell(presence.Change(h))
	over := st.table.Status(st.spec.id(), rank).Phase.Terminal()
	switch {
	case !news, over && (e.Terminal() || st.stopping || h.State == presence.Unknown):
		return
	case e.Failed():
		st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.Failed, Reason: e.Reason})
	case e.Terminal():
		st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.Stopped, Reason: e.Reason})
	case over:
		st.again(rank)
		fallthrough
	case !st.stopping:
		reason := ""
		if e.Status != string(agent.Open) {
			reason = e.Status + ": " + e.Reason
		}
		st.describe(rank, reason)
	}
	st.tell(x, rank, e)
}

// again begins the next generation of a rank: its host is there again.
func (st *hostState) again(rank int) {
	id := st.spec.id()
	_, err := st.table.Create(agent.Making{ID: id, Ranks: st.ranks(), Only: []int{rank}, Gen: st.table.Gen(id, rank) + 1, Mesh: &st.spec.Procs})
	if err == nil { // it cannot fail: the rank has ended
		st.table.Advance(id, rank, agent.Status{Phase: agent.Running})
	}
}

// tell tells what became of a host, and keeps it for who comes later, unless the host is well.
func (st *hostState) tell(x *hostEffects, rank int, e actor.Event) {
	e.Name, e.Rank, e.View, e.Gen = st.spec.Name, rank, rank, st.table.Gen(st.spec.id(), rank)
	if p, err := st.spec.Procs.Extent.Point(rank); err == nil {
		e.Point = p.String()
	}
	st.ends = slices.DeleteFunc(st.ends, func(old actor.Event) bool { return old.Rank == rank })
	if e.Status != string(agent.Open) {
		st.ends = append(st.ends, e)
	}
	x.news = append(x.news, e)
}

// halt has the hosts given back, once at a time, and again when that has failed.
func (st *hostState) halt(x *hostEffects, reason string, now time.Time) {
	if st.given || st.giving {
		return
	}
	st.stopping, st.why = true, reason
	if !st.held { // there is nothing to give back
		st.leave(x, now)
		return
	}
	st.each(func(rank int) {
		st.table.Advance(st.spec.id(), rank, agent.Status{Phase: agent.ShuttingDown})
		st.describe(rank, reason)
	})
	x.give, st.giving = true, true
}

// leave ends the ranks that have not: whatever becomes of their hosts is of no concern here.
func (st *hostState) leave(x *hostEffects, now time.Time) {
	st.given = true
	st.each(func(rank int) {
		s := agent.Status{Phase: agent.Stopped, Reason: st.why}
		if st.table.Advance(st.spec.id(), rank, s); st.held {
			host := st.spec.Procs.Hosts[rank].String()
			st.tell(x, rank, actor.Event{
				Kind: actor.KindHost, Step: "host.release", Status: s.Phase.String(), Mesh: host, Host: host, Reason: s.Reason, At: now,
			})
		}
	})
}

// phase is how the mesh is as a whole: as its least advanced host is, and failed when all have ended and one has failed.
func (st *hostState) phase() agent.Phase {
	n := st.table.Phases(st.spec.id())
	if least := n.Least(); least != agent.Stopped || n[agent.Failed] == 0 {
		return least
	}
	return agent.Failed
}
