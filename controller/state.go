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

// state is a controller's view of its mesh of procs or actors. Only step changes it.
type state struct {
	*meshRecord
	lastPhase        agent.Phase        // of the mesh, when steps was asked last
	procTimeout      time.Duration      // how long an actor that is to be started again waits for its proc to come back
	serial           uint64             // counts what was asked of agents
	rankStates       map[int]*rankState // of ranks that were started again, or had their procs change
	supervisor       *supervise.State[int]
	spares           []subjects.HostID               // that have not taken a dead host's place
	diedHosts        map[subjects.HostID]bool        // that were dead, with ranks of the mesh that may still run
	withoutOrphans   map[subjects.HostID]bool        // dead, and none of the procs that are kept goes on there
	unusable         map[subjects.HostID]error       // spares that said why they cannot be used, or nothing
	load             map[subjects.HostID]int         // procs that spares said they have
	evacuations      map[subjects.HostID]*evacuation // that are being emptied
	restarting       map[int]bool                    // ranks that somebody wants started anew
	reportedFailures map[int]reportedFailure         // that wait for their events
}

// rankState is the state of a rank besides its status.
type rankState struct {
	phase     restartPhase // where its restart is
	validFrom uint64       // answers to what was asked before say nothing of the rank as it is now
	waitUntil time.Time    // held: when to give up
	restarts  int          // restarts so far
	cause     actor.Event
	dropped   bool // the mesh goes on without it

	migration    migration          // it is on its way, which counts as no restart
	oldHost      subjects.HostID    // the host that it is still on, and is to leave; zero: that of its place
	owners       []subjects.ActorID // of the actors that it had when it left
	actorWaitGen int                // the generation that it runs in, as long as those start their actors there

	procGen   int             // of an actor: the generation of the proc that has the rank
	procHost  subjects.HostID // of an actor: where that is; zero: where the first was
	procEnded bool            // that proc has ended
	minEvent  int             // events of actors that came before this one in that proc are about those that have failed
}

// restartPhase is the phase of a rank's restart.
type restartPhase uint8

const (
	stable       restartPhase = iota
	backoff                   // for its backoff
	awaitingProc              // for its proc
	starting                  // for the answer of whoever starts it
	departing                 // for its end where it was
)

var restartPhaseNames = [...]string{"", "waiting", "held", "starting", "leaving"}

func (d restartPhase) String() string { return restartPhaseNames[d] }

func newState(s Spec) (*state, error) {
	r, err := newMeshRecord(s)
	st := &state{
		meshRecord: r, rankStates: map[int]*rankState{}, spares: slices.Clone(s.Policy.Spares), diedHosts: map[subjects.HostID]bool{}, withoutOrphans: map[subjects.HostID]bool{},
		unusable: map[subjects.HostID]error{}, load: map[subjects.HostID]int{}, evacuations: map[subjects.HostID]*evacuation{}, restarting: map[int]bool{}, reportedFailures: map[int]reportedFailure{}, procTimeout: config.SupervisionRestartWait.Get(nil),
	}
	st.lastPhase = agent.Initializing
	if s.Policy.isRestarting() {
		st.supervisor = supervise.New[int](supervise.OneForOne)
		for _, rank := range st.ranks() {
			st.supervisor.Started(rank, s.Policy.intensity())
		}
	}
	return st, err
}

// rankState returns the state of a rank for changes.
func (st *state) rankState(rank int) *rankState {
	s := st.rankStates[rank]
	if s == nil {
		s = &rankState{}
		st.rankStates[rank] = s
	}
	return s
}

// peek returns the state of a rank for reading.
func (st *state) peek(rank int) rankState {
	if s := st.rankStates[rank]; s != nil {
		return *s
	}
	return rankState{}
}

// nextSerial numbers a request to agents, so that replies match their request.
func (st *state) nextSerial() uint64 {
	st.serial++
	return st.serial
}

// hostIndex is the index of the host of a rank of the region.
func (st *state) hostIndex(rank int) (index, base int) {
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

// phase is the phase of the whole mesh: that of its least advanced rank. It is failed once the mesh
// is over and a required rank has failed.
func (st *state) phase() agent.Phase {
	n := st.table.Phases(st.spec.id())
	for rank, seat := range st.rankStates {
		switch phase := st.table.Status(st.spec.id(), rank).Phase; {
		case seat.dropped:
			n[phase]--
		case seat.phase != stable && phase == agent.Initializing: // it was there, and will be again
			n[phase]--
			n[agent.Running]++
		}
	}
	if least := n.LeastAdvanced(); least != agent.Stopped || n[agent.Failed] == 0 {
		return least
	}
	return agent.Failed
}

// meshStep is a step of the mesh as a whole.
type meshStep struct{ name, reason string }

// newMeshSteps returns the steps of the mesh since the last call.
func (st *state) newMeshSteps() []meshStep {
	was, now := st.lastPhase, st.phase()
	st.lastPhase = now
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

// isOver reports whether nothing is left to do: every rank has ended for good, or another has the mesh.
func (st *state) isOver() bool { return st.fenced != nil || st.table.CountAlive() == 0 }

// nextGiveUp returns the earliest time at which a held rank, or the wait for an event, gives up.
func (st *state) nextGiveUp(at time.Time) time.Time {
	for _, rank := range slices.Sorted(maps.Keys(st.rankStates)) {
		if s := st.rankStates[rank]; s.phase == awaitingProc && (at.IsZero() || s.waitUntil.Before(at)) {
			at = s.waitUntil
		}
	}
	for _, f := range st.reportedFailures {
		if at.IsZero() || f.waitUntil.Before(at) {
			at = f.waitUntil
		}
	}
	return at
}
