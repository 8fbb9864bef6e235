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
	lastPhase   agent.Phase   // of the mesh, at the last newMeshSteps
	procTimeout time.Duration // bounds an actor's wait for its proc to restart
	serial      uint64        // numbers the requests to agents
	rankStates
	supervisor       *supervise.State
	spares           sparePool
	diedHosts        map[subjects.HostID]bool        // hosts that died; true: their stop is sent
	incarnations     map[subjects.HostID]uint64      // of live hosts, as far as known
	withoutOrphans   map[subjects.HostID]bool        // dead hosts without live kept procs
	evacuations      map[subjects.HostID]*evacuation // by the host under evacuation
	restarting       map[int]bool                    // ranks with a requested restart
	reportedFailures map[int]reportedFailure         // failures that wait for their events
	invites          []invite                        // the oldest first
}

// rankState is the state of a rank besides its status.
type rankState struct {
	phase     restartPhase
	validFrom uint64    // replies to requests with a smaller serial are stale
	waitUntil time.Time // in awaitingProc: when the rank fails
	firstGen  int       // the generation in which the rank joined the mesh
	restarts  int       // restarts so far
	cause     actor.Event
	dropped   bool // the mesh continues without the rank

	stopRequested bool // in a partial stop
	unconfirmed   bool // the link to its host broke during its creation

	migration    migration          // a migration does not count as a restart
	oldHost      subjects.HostID    // the host under evacuation on which the rank still runs; zero: none
	owners       []subjects.ActorID // of the actors that ran in the rank before it moved
	unawaited    string             // why the migration does not await actors
	actorWaitGen int                // the rank's generation while these actors have yet to start in it; 0: none

	procGen   int             // of an actor: the generation of its proc
	procHost  subjects.HostID // of an actor: the host of its proc; zero: that of its first proc
	procEnded bool            // that proc has ended
	minEvent  int             // events of that proc's actors below this number are of former generations
}

// restartPhase is the phase of a rank's restart.
type restartPhase uint8

const (
	stable       restartPhase = iota
	backoff                   // waits for its backoff
	awaitingProc              // waits for its proc
	starting                  // waits for its agent's reply
	departing                 // waits for its end in the old place
)

var restartPhaseNames = [...]string{"", "waiting", "held", "starting", "leaving"}

func (d restartPhase) String() string { return restartPhaseNames[d] }

func newState(s Spec) (*state, error) {
	r, err := newMeshRecord(s)
	st := &state{
		meshRecord:       r,
		lastPhase:        agent.Initializing,
		procTimeout:      config.SupervisionRestartWait.Get(nil),
		rankStates:       rankStates{},
		spares:           newSparePool(s.RestartPolicy.Spares),
		diedHosts:        map[subjects.HostID]bool{},
		incarnations:     map[subjects.HostID]uint64{},
		withoutOrphans:   map[subjects.HostID]bool{},
		evacuations:      map[subjects.HostID]*evacuation{},
		restarting:       map[int]bool{},
		reportedFailures: map[int]reportedFailure{},
	}
	if s.RestartPolicy.Restarts() {
		st.supervisor = supervise.New(supervise.OneForOne)
		for _, rank := range st.ranks() {
			st.supervisor.Started(rank, s.RestartPolicy.intensity())
		}
	}
	return st, err
}

// rankStates are the states of ranks that restarted, moved, or had their procs change.
type rankStates map[int]*rankState

// rankState returns the state of a rank for changes.
func (rs rankStates) rankState(rank int) *rankState {
	s := rs[rank]
	if s == nil {
		s = &rankState{}
		rs[rank] = s
	}
	return s
}

// peek returns the state of a rank for reading.
func (rs rankStates) peek(rank int) rankState {
	if s := rs[rank]; s != nil {
		return *s
	}
	return rankState{}
}

// nextSerial numbers a request to agents, so that replies match their request.
func (st *state) nextSerial() uint64 {
	st.serial++
	return st.serial
}

// hostIndex returns the index of the host of a rank of the region, and its rank of the mesh.
func (r *meshRecord) hostIndex(rank int) (index, base int) {
	base, err := r.spec.Region.BaseRank(rank)
	if err != nil {
		return -1, -1
	}
	return base / r.spec.Procs.PerHost, base
}

// ranksOn returns the ranks of the region on a host, by its index.
func (r *meshRecord) ranksOn(index int) (ranks []int) {
	for base := index * r.spec.Procs.PerHost; base < (index+1)*r.spec.Procs.PerHost; base++ {
		if rank, in := r.spec.Region.ViewRank(base); in {
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
		phase := st.phaseOf(rank)
		restarts := seat.phase != stable && phase == agent.Initializing
		if seat.dropped || restarts {
			n[phase]--
		}
		if restarts && !seat.dropped {
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
	if st.announced != nil && !st.stopping { // added and removed ranks are no news of the mesh
		return nil
	}
	was := st.lastPhase
	now := st.phase()
	st.lastPhase = now
	failed := func(step, how string) []meshStep {
		return []meshStep{{step, fmt.Sprintf("%d of %d ranks %s", st.failed(), st.spec.Region.NumRanks(), how)}}
	}
	switch {
	case now <= was:
		return nil
	case now == agent.Running:
		if st.failed() > 0 {
			return failed("mesh.spawn.failed", "did not start")
		}
		return []meshStep{{"mesh.spawn.success", ""}}
	case now == agent.ShuttingDown:
		return []meshStep{{"mesh.stop.attempt", ""}}
	case was < agent.Running && now == agent.Failed:
		return failed("mesh.spawn.failed", "did not start")
	case now == agent.Failed:
		return failed("mesh.end.failed", "failed")
	}
	return []meshStep{{"mesh.stop.success", ""}}
}

func (r *meshRecord) failed() int { return r.table.Phases(r.spec.id())[agent.Failed] }

// isOver reports whether the controller's work is done: every rank has ended for good, or the mesh
// has another owner.
func (r *meshRecord) isOver() bool { return r.fenced != nil || r.table.CountAlive() == 0 }

// nextGiveUp returns the earliest end of a wait: for a proc, for an event, or at.
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
