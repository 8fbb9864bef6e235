package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// Health is asked of a controller: how its mesh is, and why.
var Health = actor.NewEndpoint[agent.Agent, actor.None, Report]("health")

// maxReported bounds the ends and restarts in a Report: the first that failed, which are nearest to what
// went wrong.
const maxReported = 64

// Report is what a controller knows of its mesh.
type Report struct {
	ID          string           `cbor:"1,keyasint" json:"id"`
	Name        string           `cbor:"2,keyasint,omitempty" json:"name,omitempty"`
	Procs       agent.Mesh       `cbor:"3,keyasint" json:"procs"` // the proc mesh, as it is now; of hosts, one rank on each
	Actors      *agent.ActorSpec `cbor:"4,keyasint,omitempty" json:"actors,omitempty"`
	Region      string           `cbor:"5,keyasint" json:"region"` // of the procs' extent
	Phase       agent.Phase      `cbor:"6,keyasint" json:"phase"`
	Statuses    agent.Overlay    `cbor:"7,keyasint" json:"statuses"` // by rank of the region
	Later       []Later          `cbor:"8,keyasint,omitempty" json:"later,omitempty"`
	Failed      []actor.Event    `cbor:"9,keyasint,omitempty" json:"failed,omitempty"` // the ends that were failures, at most 64
	Hosts       []HostHealth     `cbor:"10,keyasint,omitempty" json:"hosts,omitempty"` // those that are not known to be alive
	Policy      Policy           `cbor:"11,keyasint" json:"policy"`
	Lease       time.Duration    `cbor:"12,keyasint" json:"lease"` // 0: none
	Subscribers int              `cbor:"13,keyasint" json:"subscribers"`
	Restarts    int              `cbor:"14,keyasint" json:"restarts"` // ranks that were started anew
	Stalls      int              `cbor:"15,keyasint" json:"stalls"`   // times it was held up for more than a whole period of its leases
	Since       time.Time        `cbor:"16,keyasint" json:"since"`
	Spares      int              `cbor:"17,keyasint,omitempty" json:"spares,omitempty"` // spare hosts that are left
}

// Later is a rank that is not in its first generation, or is about to leave it.
type Later struct {
	Rank  int    `cbor:"1,keyasint" json:"rank"` // of the region
	Gen   int    `cbor:"2,keyasint" json:"gen"`  // of the rank
	Proc  int    `cbor:"3,keyasint" json:"proc"` // the generation of its proc
	Host  string `cbor:"4,keyasint" json:"host"`
	Cause string `cbor:"5,keyasint,omitempty" json:"cause,omitempty"` // why it was started anew, the last time
	Tries int    `cbor:"6,keyasint,omitempty" json:"tries,omitempty"`

	Doing string        `cbor:"7,keyasint,omitempty" json:"doing,omitempty"` // waiting for its backoff, held until its proc is there, or starting; "": nothing
	For   time.Duration `cbor:"8,keyasint,omitempty" json:"for,omitempty"`   // until it is started, or given up when it is held
}

// HostHealth is a host that is not known to be alive.
type HostHealth struct {
	Host   string    `cbor:"1,keyasint" json:"host"`
	State  string    `cbor:"2,keyasint" json:"state"`
	Reason string    `cbor:"3,keyasint" json:"reason"`
	Since  time.Time `cbor:"4,keyasint" json:"since"`

	Silence time.Duration `cbor:"5,keyasint,omitempty" json:"silence,omitempty"` // since the host was heard last
	Left    bool          `cbor:"6,keyasint,omitempty" json:"left,omitempty"`    // dead: it said goodbye
}

// report is what the controller knows.
func (c *controller) report() Report {
	r := c.speaker.report()
	r.Lease, r.Restarts, r.Stalls, r.Spares = c.lease(), c.restarted, c.stalls, len(c.spares)
	for _, rank := range slices.Sorted(maps.Keys(c.seats)) {
		if gen := c.table.Gen(c.spec.id(), rank); gen > 0 || c.seats[rank].proc > 0 || c.seats[rank].doing != settled {
			r.Later = append(r.Later, c.later(rank, gen))
		}
	}
	return r
}

func (c *controller) later(rank, gen int) Later {
	seat, l := c.known(rank), Later{Rank: rank, Gen: gen, Proc: gen}
	if c.spec.Actors != nil {
		l.Proc = seat.proc
	}
	if host, _ := c.host(rank); host >= 0 {
		l.Host = c.at(rank).String()
	}
	l.Cause, l.Tries, l.Doing = seat.cause.Reason, seat.tries, seat.doing.String()
	switch seat.doing {
	case waiting:
		l.For = max(0, time.Until(c.restart.Next(rank)))
	case held:
		l.For = max(0, time.Until(seat.until))
	}
	return l
}
