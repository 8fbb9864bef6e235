package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// Health returns a controller's Report of its mesh.
var Health = actor.NewEndpoint[agent.Agent, actor.None, Report](agent.HealthVerb)

// maxReported bounds the ends and restarts in a Report. It keeps the first failures, nearest to the
// cause.
const maxReported = 64

// Report is a controller's view of its mesh.
type Report struct {
	ID            string           `cbor:"1,keyasint" json:"id"`
	Name          string           `cbor:"2,keyasint,omitempty" json:"name,omitempty"`
	Procs         agent.Mesh       `cbor:"3,keyasint" json:"procs"` // of hosts: one rank on each
	Actors        *agent.ActorSpec `cbor:"4,keyasint,omitempty" json:"actors,omitempty"`
	Region        string           `cbor:"5,keyasint" json:"region"` // of the procs' extent
	Phase         agent.Phase      `cbor:"6,keyasint" json:"phase"`
	Statuses      agent.Overlay    `cbor:"7,keyasint" json:"statuses"` // by rank of the region
	Restarted     []RankHistory    `cbor:"8,keyasint,omitempty" json:"restarted,omitempty"`
	Failed        []actor.Event    `cbor:"9,keyasint,omitempty" json:"failed,omitempty"` // the first 64 failures
	Hosts         []HostHealth     `cbor:"10,keyasint,omitempty" json:"hosts,omitempty"` // the unhealthy ones
	RestartPolicy RestartPolicy    `cbor:"11,keyasint" json:"restart_policy"`
	Lease         time.Duration    `cbor:"12,keyasint" json:"lease"`    // 0: none
	Restarts      int              `cbor:"14,keyasint" json:"restarts"` // of ranks
	Stalls        int              `cbor:"15,keyasint" json:"stalls"`   // late lease renewals
	Since         time.Time        `cbor:"16,keyasint" json:"since"`

	Spares []subjects.HostID `cbor:"17,keyasint,omitempty" json:"spares,omitempty"` // the remaining ones
}

// RankHistory is a rank past its first generation, or about to leave it.
type RankHistory struct {
	Rank     int    `cbor:"1,keyasint" json:"rank"` // of the region
	Gen      int    `cbor:"2,keyasint" json:"gen"`  // of the rank
	Proc     int    `cbor:"3,keyasint" json:"proc"` // the generation of its proc
	Host     string `cbor:"4,keyasint" json:"host"`
	Cause    string `cbor:"5,keyasint,omitempty" json:"cause,omitempty"` // of the last restart
	Restarts int    `cbor:"6,keyasint,omitempty" json:"restarts,omitempty"`

	// RestartPhase is "waiting" (for its backoff), "held" (until its proc runs), "starting",
	// "leaving", or "".
	RestartPhase string `cbor:"7,keyasint,omitempty" json:"restart_phase,omitempty"`
	// NextIn is the time until the rank starts. For a held rank it is the time until it fails.
	NextIn time.Duration `cbor:"8,keyasint,omitempty" json:"next_in,omitempty"`
}

// HostHealth is the state of a dead, suspect or unknown host.
type HostHealth struct {
	Host   string    `cbor:"1,keyasint" json:"host"`
	State  string    `cbor:"2,keyasint" json:"state"`
	Reason string    `cbor:"3,keyasint" json:"reason"`
	Since  time.Time `cbor:"4,keyasint" json:"since"`

	Silence  time.Duration `cbor:"5,keyasint,omitempty" json:"silence,omitempty"`  // since its last message
	Graceful bool          `cbor:"6,keyasint,omitempty" json:"graceful,omitempty"` // after a clean shutdown
}

// report returns the controller's Report.
func (c *controller) report() Report {
	r := c.recordServer.report()
	r.Lease = c.lease()
	r.Restarts = c.restarts
	r.Stalls = c.stalls
	r.Spares = slices.Clone(c.spares.hosts)
	for _, rank := range slices.Sorted(maps.Keys(c.rankStates)) {
		s := c.rankStates[rank]
		gen := c.table.Gen(c.spec.id(), rank)
		if gen > s.firstGen || s.procGen > 0 || s.phase != stable {
			r.Restarted = append(r.Restarted, c.rankHistory(rank, gen))
		}
	}
	return r
}

func (c *controller) rankHistory(rank, gen int) RankHistory {
	seat := c.peek(rank)
	l := RankHistory{
		Rank: rank, Gen: gen, Proc: gen,
		Cause: seat.cause.Reason, Restarts: seat.restarts, RestartPhase: seat.phase.String(),
	}
	if c.spec.Actors != nil {
		l.Proc = seat.procGen
	}
	if host, _ := c.hostIndex(rank); host >= 0 {
		l.Host = c.hostOf(rank).String()
	}
	switch seat.phase {
	case backoff:
		l.NextIn = max(0, time.Until(c.supervisor.RestartAt(rank)))
	case awaitingProc:
		l.NextIn = max(0, time.Until(seat.waitUntil))
	}
	return l
}
