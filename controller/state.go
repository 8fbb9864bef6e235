package controller

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/supervise"
	"github.com/castnet-io/castnet/subjects"
)

// state is what a controller knows of its mesh of procs or actors. step is the only thing that changes it.
type state struct {
	*record
	was      agent.Phase   // of the mesh, when steps was asked last
	heldFor  time.Duration // how long an actor that is to be started again waits for its proc to come back
	serial   uint64        // counts what was asked of agents
	seats    map[int]*seat // of ranks that were started again, or had their procs change
	restart  *supervise.State[int]
	spares   []subjects.HostID         // that have not taken a dead host's place
	gone     map[subjects.HostID]bool  // that were dead, with ranks of the mesh that may still run
	deserted map[subjects.HostID]bool  // dead, and none of the procs that are kept goes on there
	unfit    map[subjects.HostID]error // spares that said why they cannot be used, or nothing
	load     map[subjects.HostID]int   // procs that spares said they have
	moving   map[subjects.HostID]*move // that are being emptied
	rolling  map[int]bool              // ranks that somebody wants started anew
}

// seat is what there is to know of a rank besides its status.
type seat struct {
	doing   doing     // where its restart is
	since   uint64    // answers to what was asked before say nothing of the rank as it is now
	until   time.Time // held: when to give up
	tries   int       // restarts so far
	cause   actor.Event
	dropped bool // the mesh goes on without it

	errand  errand             // it is on its way, which counts as no restart
	from    subjects.HostID    // the host that it is still on, and is to leave; zero: that of its place
	owners  []subjects.ActorID // of the actors that it had when it left
	follows int                // the generation that it runs in, as long as those start their actors there

	proc int             // of an actor: the generation of the proc that has the rank
	home subjects.HostID // of an actor: where that is; zero: where the first was
	dead bool            // that proc has ended
	nth  int             // events of actors that came before this one in that proc are about those that have failed
}

// doing is where the restart of a rank is.
type doing uint8

const (
	settled  doing = iota
	waiting        // for its backoff
	held           // for its proc
	starting       // for the answer of whoever starts it
	leaving        // for its end where it was
)

var doings = [...]string{"", "waiting", "held", "starting", "leaving"}

func (d doing) String() string { return doings[d] }

func newState(s Spec) (*state, error) {
	r, err := newRecord(s)
	st := &state{
		record: r, seats: map[int]*seat{}, spares: slices.Clone(s.Policy.Spares), gone: map[subjects.HostID]bool{}, deserted: map[subjects.HostID]bool{},
		unfit: map[subjects.HostID]error{}, load: map[subjects.HostID]int{}, moving: map[subjects.HostID]*move{}, rolling: map[int]bool{}, heldFor: config.SupervisionHeld.Get(nil),
	}
	st.was = agent.Initializing
	if s.Policy.restarts() {
		st.restart = supervise.New[int](supervise.OneForOne)
		for _, rank := range st.ranks() {
			st.restart.Started(rank, s.Policy.intensity())
		}
	}
	return st, err
}

// seat is what there is to know of a rank; it may be changed.
func (st *state) seat(rank int) *seat {
	s := st.seats[rank]
	if s == nil {
		s = &seat{}
		st.seats[rank] = s
	}
	return s
}

// known is seat for who only looks.
func (st *state) known(rank int) seat {
	if s := st.seats[rank]; s != nil {
		return *s
	}
	return seat{}
}

// ask counts a question to agents: what is answered is an answer to it.
func (st *state) ask() uint64 {
	st.serial++
	return st.serial
}

// host is the index of the host of a rank of the region.
func (st *state) host(rank int) (index, base int) {
	base, err := st.spec.Region.BaseRank(rank)
	if err != nil {
		return -1, -1
	}
	return base / st.spec.Procs.PerHost, base
}

// ranksOn are the ranks of the region on a host, by its index.
func (st *state) ranksOn(index int) (ranks []int) {
	for base := index * st.spec.Procs.PerHost; base < (index+1)*st.spec.Procs.PerHost; base++ {
		if rank, in := st.spec.Region.ViewRank(base); in {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// phase is how the mesh is as a whole: as its least advanced rank is, and failed once it is over and a
// rank has failed that it cannot go on without.
func (st *state) phase() agent.Phase {
	n := st.table.Phases(st.spec.id())
	for rank, seat := range st.seats {
		switch phase := st.table.Status(st.spec.id(), rank).Phase; {
		case seat.dropped:
			n[phase]--
		case seat.doing != settled && phase == agent.Initializing: // it was there, and will be again
			n[phase]--
			n[agent.Running]++
		}
	}
	if least := n.Least(); least != agent.Stopped || n[agent.Failed] == 0 {
		return least
	}
	return agent.Failed
}

// meshStep is something that became of the mesh as a whole.
type meshStep struct{ name, reason string }

// steps says what has become of the mesh since it was asked last.
func (st *state) steps() []meshStep {
	was, now := st.was, st.phase()
	st.was = now
	switch {
	case now <= was:
		return nil
	case now == agent.Running:
		if n := st.failed(); n > 0 {
			return []meshStep{{"mesh.spawn.failed", fmt.Sprintf("%d ranks did not start", n)}}
		}
		return []meshStep{{"mesh.spawn.success", ""}}
	case now == agent.ShuttingDown:
		return []meshStep{{"mesh.stop.attempt", ""}}
	case was < agent.Running && now == agent.Failed:
		return []meshStep{{"mesh.spawn.failed", fmt.Sprintf("%d ranks did not start", st.failed())}}
	case now == agent.Failed:
		return []meshStep{{"mesh.end.failed", fmt.Sprintf("%d ranks failed", st.failed())}}
	}
	return []meshStep{{"mesh.stop.success", ""}}
}

func (st *state) failed() int { return st.table.Phases(st.spec.id())[agent.Failed] }

// over reports whether nothing is left to do: every rank has ended for good, or another has the mesh.
func (st *state) over() bool { return st.fenced != nil || st.table.Alive() == 0 }

// wake is when the first of the ranks that are held gives up.
func (st *state) wake(at time.Time) time.Time {
	for _, rank := range slices.Sorted(maps.Keys(st.seats)) {
		if s := st.seats[rank]; s.doing == held && (at.IsZero() || s.until.Before(at)) {
			at = s.until
		}
	}
	return at
}
