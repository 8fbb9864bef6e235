package worlds

import (
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Upserted is what a declaration has come to.
type Upserted struct {
	World  string `cbor:"1,keyasint" json:"world"`
	Mesh   string `cbor:"2,keyasint,omitempty" json:"mesh,omitempty"`   // "": nobody has said it so far
	Status Status `cbor:"3,keyasint,omitempty" json:"status,omitempty"` // "": there is no such world so far
	Change Change `cbor:"4,keyasint" json:"change"`
}

// Change is what a declaration changes.
type Change string

// A world that is declared a second time may get labels, and nothing else.
const (
	Creates Change = "create"
	Labels  Change = "labels"
	Nothing Change = "nothing"
)

// Declaration is a world to be declared.
type Declaration struct {
	Spec Spec `cbor:"1,keyasint" json:"spec"`
	Dry  bool `cbor:"2,keyasint,omitempty" json:"dry,omitempty"` // say what would change, and change nothing
}

// Reserving takes a name for a mesh that is to be, or releases it.
type Reserving struct {
	ID subjects.MeshID `cbor:"1,keyasint" json:"id"` // of the reservation: its label is the name
	By subjects.ProcID `cbor:"2,keyasint" json:"by"` // the proc of the program
}

// Joining asks for a place in a world: for a host, or for a proc that nobody launched for it.
type Joining struct {
	World  string            `cbor:"1,keyasint" json:"world"`
	Host   *JoiningHost      `cbor:"2,keyasint,omitempty" json:"host,omitempty"`
	Proc   *JoiningProc      `cbor:"3,keyasint,omitempty" json:"proc,omitempty"`
	Labels map[string]string `cbor:"4,keyasint,omitempty" json:"labels,omitempty"`
}

// JoiningHost is a host that offers to run the procs of its rank.
type JoiningHost struct {
	ID   subjects.HostID `cbor:"1,keyasint" json:"id"`
	Rank int             `cbor:"2,keyasint" json:"rank"`
	Life string          `cbor:"3,keyasint" json:"life"` // of the hostd: another one has none of the procs of the last
}

// JoiningProc is a proc that joins of itself, and says Beat from then on.
type JoiningProc struct {
	ID   subjects.ProcID `cbor:"1,keyasint" json:"id"`
	Mode Mode            `cbor:"2,keyasint" json:"mode"`
}

// Joined is the answer to who joins, before any other word to it.
type Joined struct {
	World     string `cbor:"1,keyasint" json:"world"`
	Execution string `cbor:"2,keyasint" json:"execution"` // of the system controller
	First     int    `cbor:"3,keyasint" json:"first"`     // of a host: its share, when that is known
	Count     int    `cbor:"4,keyasint" json:"count"`     // 0: it stands by
}

// Leaving takes a host or a proc out of its worlds: what it had is not there any more, and no harm done.
type Leaving struct {
	Host *subjects.HostID `cbor:"1,keyasint,omitempty" json:"host,omitempty"`
	Proc *subjects.ProcID `cbor:"2,keyasint,omitempty" json:"proc,omitempty"`
}

// Heartbeat is the word of a proc that joined: it lives, and which of its actors have failed.
type Heartbeat struct {
	Proc   subjects.ProcID `cbor:"1,keyasint" json:"proc"`
	Failed []string        `cbor:"2,keyasint,omitempty" json:"failed,omitempty"`
}

// Filter chooses worlds, and procs in them. Every part that is empty chooses all; labels are chosen by
// those that have every one of them, with that value.
type Filter struct {
	Worlds      []string          `cbor:"1,keyasint,omitempty" json:"worlds,omitempty"`
	WorldLabels map[string]string `cbor:"2,keyasint,omitempty" json:"world_labels,omitempty"`
	ProcLabels  map[string]string `cbor:"3,keyasint,omitempty" json:"proc_labels,omitempty"`
}

// Snapshot is the system as it is now.
type Snapshot struct {
	Execution string       `cbor:"1,keyasint" json:"execution"`
	Epoch     uint64       `cbor:"2,keyasint,omitempty" json:"epoch,omitempty"` // 0: no other controller can take over
	Worlds    []WorldState `cbor:"3,keyasint" json:"worlds"`                    // by name
	Durable   bool         `cbor:"4,keyasint" json:"durable"`                   // worlds outlive the system controller

	Detached []DetachedState `cbor:"5,keyasint,omitempty" json:"detached,omitempty"` // by name; no filter leaves one out
}

// WorldState is one world.
type WorldState struct {
	Name    string            `cbor:"1,keyasint" json:"name"`
	Status  Status            `cbor:"2,keyasint" json:"status"`
	Reason  string            `cbor:"3,keyasint,omitempty" json:"reason,omitempty"`
	For     time.Duration     `cbor:"4,keyasint" json:"for"` // it has had the status
	Mesh    string            `cbor:"5,keyasint,omitempty" json:"mesh,omitempty"`
	Shape   *shape.Extent     `cbor:"6,keyasint,omitempty" json:"shape,omitempty"` // nil: not declared
	PerHost int               `cbor:"7,keyasint,omitempty" json:"per_host,omitempty"`
	Labels  map[string]string `cbor:"8,keyasint,omitempty" json:"labels,omitempty"`
	Hosts   []HostState       `cbor:"9,keyasint" json:"hosts"`                       // by host rank; no filter leaves one out
	Procs   []ProcState       `cbor:"10,keyasint" json:"procs"`                      // by rank
	Ending  string            `cbor:"11,keyasint,omitempty" json:"ending,omitempty"` // why it is being stopped
}

// HostState is a host of a world.
type HostState struct {
	Rank   int               `cbor:"1,keyasint" json:"rank"`
	ID     subjects.HostID   `cbor:"2,keyasint" json:"id"`
	First  int               `cbor:"3,keyasint" json:"first"`
	Count  int               `cbor:"4,keyasint" json:"count"` // 0: it stands by
	Lost   string            `cbor:"5,keyasint,omitempty" json:"lost,omitempty"`
	Labels map[string]string `cbor:"6,keyasint,omitempty" json:"labels,omitempty"`
}

// ProcState is a proc of a world.
type ProcState struct {
	ID     subjects.ProcID   `cbor:"1,keyasint" json:"id"`
	Health Health            `cbor:"2,keyasint" json:"health"`
	Reason string            `cbor:"3,keyasint,omitempty" json:"reason,omitempty"`
	Failed []string          `cbor:"4,keyasint,omitempty" json:"failed,omitempty"` // its failed actors
	Host   string            `cbor:"5,keyasint,omitempty" json:"host,omitempty"`   // "": it joined of itself
	Labels map[string]string `cbor:"6,keyasint,omitempty" json:"labels,omitempty"`
}

// Stopping asks for the end of some worlds, or of all of them and of the system controller.
type Stopping struct {
	Worlds  []string                   `cbor:"1,keyasint,omitempty" json:"worlds,omitempty"`
	Timeout time.Duration              `cbor:"2,keyasint,omitempty" json:"timeout,omitempty"` // 0: 8 s
	Reason  string                     `cbor:"3,keyasint,omitempty" json:"reason,omitempty"`
	Report  *actor.PortRef[StopReport] `cbor:"4,keyasint,omitempty" json:"report,omitempty"` // nil: nobody wants one
	All     bool                       `cbor:"5,keyasint,omitempty" json:"all,omitempty"`    // and Worlds is empty
}

// Accepted is the first answer to Stopping, at once; the second is the StopReport.
type Accepted struct {
	Worlds  []string          `cbor:"1,keyasint" json:"worlds"`
	Skipped map[string]string `cbor:"2,keyasint,omitempty" json:"skipped,omitempty"` // and why
}

// StopReport says what came of a stop, at the latest when its timeout has passed.
type StopReport struct {
	Worlds []WorldStopped `cbor:"1,keyasint" json:"worlds"` // by name
}

// WorldStopped says what came of the members of a world.
type WorldStopped struct {
	World   string   `cbor:"1,keyasint" json:"world"`
	Stopped int      `cbor:"2,keyasint" json:"stopped"`                    // procs that ended as they were asked to
	Aborted int      `cbor:"3,keyasint" json:"aborted"`                    // procs that ended otherwise, or have not ended
	Silent  []string `cbor:"4,keyasint,omitempty" json:"silent,omitempty"` // hosts and procs that never answered
}

// Whereabouts is where a rank of a world is.
type Whereabouts struct {
	World  string          `cbor:"1,keyasint" json:"world"`
	Proc   subjects.ProcID `cbor:"2,keyasint" json:"proc"` // its newest incarnation
	Host   string          `cbor:"3,keyasint,omitempty" json:"host,omitempty"`
	Health Health          `cbor:"4,keyasint" json:"health"`
	Reason string          `cbor:"5,keyasint,omitempty" json:"reason,omitempty"`
}

// Detaching hands a mesh over to the system controller, which owns it from then on: it renews the lease, and keeps the
// policy.
type Detaching struct {
	Mesh    subjects.MeshID   `cbor:"1,keyasint" json:"mesh"`
	Claim   agent.Claim       `cbor:"2,keyasint" json:"claim"` // of the owner
	Hosts   []subjects.HostID `cbor:"3,keyasint" json:"hosts"` // that may have procs of it
	Lease   time.Duration     `cbor:"4,keyasint,omitempty" json:"lease,omitempty"`
	Policy  controller.Policy `cbor:"5,keyasint" json:"policy"`
	Display string            `cbor:"6,keyasint,omitempty" json:"display,omitempty"`
}

// Owned says in whose name the system controller has a mesh.
type Owned struct {
	Mesh    subjects.MeshID `cbor:"1,keyasint" json:"mesh"`
	Claim   agent.Claim     `cbor:"2,keyasint" json:"claim"`
	Durable bool            `cbor:"3,keyasint" json:"durable"` // the mesh outlives the system controller
}

// Adopting asks for a detached mesh: in the name of who will own it, and in the epoch of the owner that is followed. With
// it who has taken the mesh over confirms that, in his own epoch: until then the system controller has not let it go.
type Adopting struct {
	Mesh  subjects.MeshID `cbor:"1,keyasint" json:"mesh"`
	Claim agent.Claim     `cbor:"2,keyasint" json:"claim"`
}

// Adopted is the mesh as it was handed over, and the claim to follow.
type Adopted struct {
	Detaching Detaching   `cbor:"1,keyasint" json:"detaching"`
	Claim     agent.Claim `cbor:"2,keyasint" json:"claim"`
}

// DetachedState is a detached mesh.
type DetachedState struct {
	Mesh   subjects.MeshID `cbor:"1,keyasint" json:"mesh"`
	Claim  agent.Claim     `cbor:"2,keyasint" json:"claim"`
	For    time.Duration   `cbor:"3,keyasint" json:"for"`
	Reason string          `cbor:"4,keyasint,omitempty" json:"reason,omitempty"` // its hosts have not heard of this owner
	Lease  time.Duration   `cbor:"5,keyasint,omitempty" json:"lease,omitempty"`
}

// DetachedRecord is what of a detached mesh outlives a system controller.
type DetachedRecord struct {
	Detaching
	Given  agent.Claim   `cbor:"11,keyasint" json:"given"`                      // of who handed it over
	Now    agent.Claim   `cbor:"12,keyasint" json:"now"`                        // of the system
	Before []agent.Claim `cbor:"13,keyasint,omitempty" json:"before,omitempty"` // of earlier terms, and of who adopted it and did not confirm it
	Giving *agent.Claim  `cbor:"14,keyasint,omitempty" json:"giving,omitempty"` // of who is adopting it
}

// Record is what outlives a system controller: the world as it is wanted, and who has which part.
type Record struct {
	Name   string            `cbor:"1,keyasint" json:"name"`
	Spec   *Spec             `cbor:"2,keyasint,omitempty" json:"spec,omitempty"`
	Mesh   string            `cbor:"3,keyasint,omitempty" json:"mesh,omitempty"`
	Labels map[string]string `cbor:"4,keyasint,omitempty" json:"labels,omitempty"`
	Hosts  []Seat            `cbor:"5,keyasint,omitempty" json:"hosts,omitempty"`
	Procs  []SelfJoined      `cbor:"6,keyasint,omitempty" json:"procs,omitempty"`
	Ending string            `cbor:"7,keyasint,omitempty" json:"ending,omitempty"`
	Gens   map[int]int       `cbor:"8,keyasint,omitempty" json:"gens,omitempty"` // by host rank: the next one

	Detached *DetachedRecord `cbor:"9,keyasint,omitempty" json:"detached,omitempty"`  // a detached mesh of that name, and no world
	Reserved *Reserving      `cbor:"10,keyasint,omitempty" json:"reserved,omitempty"` // a reservation, and no world
}

// Seat is the place of a host in a world.
type Seat struct {
	Host   subjects.HostID   `cbor:"1,keyasint" json:"host"`
	Rank   int               `cbor:"2,keyasint" json:"rank"`
	Life   string            `cbor:"3,keyasint,omitempty" json:"life,omitempty"`
	Gen    int               `cbor:"4,keyasint,omitempty" json:"gen,omitempty"` // of its procs, where it has any
	Labels map[string]string `cbor:"5,keyasint,omitempty" json:"labels,omitempty"`
	Born   string            `cbor:"6,keyasint,omitempty" json:"born,omitempty"` // the life in which they were ordered
}

// SelfJoined is a proc that joined of itself.
type SelfJoined struct {
	ID     subjects.ProcID   `cbor:"1,keyasint" json:"id"`
	Mode   Mode              `cbor:"2,keyasint,omitempty" json:"mode,omitempty"`
	Labels map[string]string `cbor:"3,keyasint,omitempty" json:"labels,omitempty"`
}
