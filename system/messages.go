package system

import (
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// UpsertResponse is the result of a declaration.
type UpsertResponse struct {
	World  string `cbor:"1,keyasint" json:"world"`
	Mesh   string `cbor:"2,keyasint,omitempty" json:"mesh,omitempty"`   // "": a dry run of a new world
	Status Status `cbor:"3,keyasint,omitempty" json:"status,omitempty"` // "": a dry run of a new world
	Change Change `cbor:"4,keyasint" json:"change"`
}

// Change is the kind of change that a declaration makes.
type Change string

// A repeated declaration may only add labels.
const (
	ChangeCreate Change = "create"
	ChangeLabels Change = "labels"
	ChangeNone   Change = "nothing"
)

// UpsertRequest declares a world.
type UpsertRequest struct {
	Spec   Spec `cbor:"1,keyasint" json:"spec"`
	DryRun bool `cbor:"2,keyasint,omitempty" json:"dry_run,omitempty"` // return the Change without making it
}

// NameReservation reserves a name for a future mesh, or releases it.
type NameReservation struct {
	ID subjects.MeshID `cbor:"1,keyasint" json:"id"` // of the reservation: its label is the name
	By subjects.ProcID `cbor:"2,keyasint" json:"by"` // the proc of the program
}

// JoinRequest asks for a place in a world, for a host or a self-joined proc.
type JoinRequest struct {
	World  string            `cbor:"1,keyasint" json:"world"`
	Host   *HostJoin         `cbor:"2,keyasint,omitempty" json:"host,omitempty"`
	Proc   *ProcJoin         `cbor:"3,keyasint,omitempty" json:"proc,omitempty"`
	Labels map[string]string `cbor:"4,keyasint,omitempty" json:"labels,omitempty"`
}

// HostJoin is a host's offer to run the procs of its rank.
type HostJoin struct {
	ID          subjects.HostID `cbor:"1,keyasint" json:"id"`
	Rank        int             `cbor:"2,keyasint" json:"rank"`
	Incarnation string          `cbor:"3,keyasint" json:"incarnation"` // of the hostd
}

// ProcJoin is a self-joined proc, which sends a Heartbeat afterwards.
type ProcJoin struct {
	ID   subjects.ProcID `cbor:"1,keyasint" json:"id"`
	Mode Mode            `cbor:"2,keyasint" json:"mode"`
}

// JoinResponse is the reply to a join, before any other message to the member.
type JoinResponse struct {
	World     string `cbor:"1,keyasint" json:"world"`
	Execution string `cbor:"2,keyasint" json:"execution"` // of the system controller
	First     int    `cbor:"3,keyasint" json:"first"`     // of a host's share, if that is known
	Count     int    `cbor:"4,keyasint" json:"count"`     // 0: the host stands by
}

// LeaveRequest removes a host or a proc from its worlds. Its procs are gone, without a failure.
type LeaveRequest struct {
	Host *subjects.HostID `cbor:"1,keyasint,omitempty" json:"host,omitempty"`
	Proc *subjects.ProcID `cbor:"2,keyasint,omitempty" json:"proc,omitempty"`
}

// HeartbeatRequest is a joined proc's sign of life, with its failed actors.
type HeartbeatRequest struct {
	Proc   subjects.ProcID `cbor:"1,keyasint" json:"proc"`
	Failed []string        `cbor:"2,keyasint,omitempty" json:"failed,omitempty"`
}

// Filter selects worlds, and procs in them. An empty field selects all. A resource matches if it
// has every label, with that value.
type Filter struct {
	Worlds      []string          `cbor:"1,keyasint,omitempty" json:"worlds,omitempty"`
	WorldLabels map[string]string `cbor:"2,keyasint,omitempty" json:"world_labels,omitempty"`
	ProcLabels  map[string]string `cbor:"3,keyasint,omitempty" json:"proc_labels,omitempty"`
}

// Snapshot is the present state of the system.
type Snapshot struct {
	Execution string `cbor:"1,keyasint" json:"execution"`
	// 0: no other controller can take over
	Epoch  uint64       `cbor:"2,keyasint,omitempty" json:"epoch,omitempty"`
	Worlds []WorldState `cbor:"3,keyasint" json:"worlds"` // by name
	// worlds outlive the system controller
	Durable bool `cbor:"4,keyasint" json:"durable"`

	Detached []DetachedState `cbor:"5,keyasint,omitempty" json:"detached,omitempty"` // by name; not filtered
}

// WorldState is one world.
type WorldState struct {
	Name      string            `cbor:"1,keyasint" json:"name"`
	Status    Status            `cbor:"2,keyasint" json:"status"`
	Reason    string            `cbor:"3,keyasint,omitempty" json:"reason,omitempty"`
	StatusAge time.Duration     `cbor:"4,keyasint" json:"status_age"` // the time in this status
	Mesh      string            `cbor:"5,keyasint,omitempty" json:"mesh,omitempty"`
	Shape     *shape.Extent     `cbor:"6,keyasint,omitempty" json:"shape,omitempty"` // nil: not declared
	PerHost   int               `cbor:"7,keyasint,omitempty" json:"per_host,omitempty"`
	Labels    map[string]string `cbor:"8,keyasint,omitempty" json:"labels,omitempty"`
	// by host rank; not filtered
	Hosts []HostState `cbor:"9,keyasint" json:"hosts"`
	Procs []ProcState `cbor:"10,keyasint" json:"procs"` // by rank
	// set: it is being stopped
	StoppingReason string `cbor:"11,keyasint,omitempty" json:"stopping_reason,omitempty"`
	// the time until its eviction for an unhealthy proc; 0: none is due
	EvictionIn time.Duration `cbor:"12,keyasint,omitempty" json:"eviction_in,omitempty"`
	// the last hosts of the ranks without a host, by host rank
	Left map[int]subjects.HostID `cbor:"13,keyasint,omitempty" json:"left,omitempty"`
}

// HostState is a host of a world.
type HostState struct {
	Rank   int               `cbor:"1,keyasint" json:"rank"`
	ID     subjects.HostID   `cbor:"2,keyasint" json:"id"`
	First  int               `cbor:"3,keyasint" json:"first"`
	Count  int               `cbor:"4,keyasint" json:"count"` // 0: the host stands by
	Lost   string            `cbor:"5,keyasint,omitempty" json:"lost,omitempty"`
	Labels map[string]string `cbor:"6,keyasint,omitempty" json:"labels,omitempty"`
}

// ProcState is a proc of a world.
type ProcState struct {
	ID     subjects.ProcID   `cbor:"1,keyasint" json:"id"`
	Health Health            `cbor:"2,keyasint" json:"health"`
	Reason string            `cbor:"3,keyasint,omitempty" json:"reason,omitempty"`
	Failed []string          `cbor:"4,keyasint,omitempty" json:"failed,omitempty"` // its failed actors
	Host   string            `cbor:"5,keyasint,omitempty" json:"host,omitempty"`   // "": self-joined
	Labels map[string]string `cbor:"6,keyasint,omitempty" json:"labels,omitempty"`
}

// StopRequest stops some worlds, or all worlds and the system controller.
type StopRequest struct {
	Worlds  []string                   `cbor:"1,keyasint,omitempty" json:"worlds,omitempty"`
	Timeout time.Duration              `cbor:"2,keyasint,omitempty" json:"timeout,omitempty"` // 0: 8 s
	Reason  string                     `cbor:"3,keyasint,omitempty" json:"reason,omitempty"`
	Report  *actor.PortRef[StopReport] `cbor:"4,keyasint,omitempty" json:"report,omitempty"` // nil: no report
	// Worlds is then empty
	All bool `cbor:"5,keyasint,omitempty" json:"all,omitempty"`
}

// StopResponse is the immediate reply to a StopRequest. A StopReport follows.
type StopResponse struct {
	Worlds  []string          `cbor:"1,keyasint" json:"worlds"`
	Skipped map[string]string `cbor:"2,keyasint,omitempty" json:"skipped,omitempty"` // reasons, by name
}

// Reasons in StopResponse.Skipped.
const (
	SkippedNotFound = "not found"
	SkippedStopping = "it is already stopping"
)

// StopReport is the result of a stop, sent at its timeout at the latest.
type StopReport struct {
	Worlds []WorldStopped `cbor:"1,keyasint" json:"worlds"` // by name
}

// WorldStopped is the outcome of a stop for the members of a world.
type WorldStopped struct {
	World   string `cbor:"1,keyasint" json:"world"`
	Stopped int    `cbor:"2,keyasint" json:"stopped"` // procs that stopped cleanly
	// procs that ended otherwise, or still run
	Aborted int      `cbor:"3,keyasint" json:"aborted"`
	Killed  []string `cbor:"5,keyasint,omitempty" json:"killed,omitempty"` // the first 64 of them, with their ends
	Silent  []string `cbor:"4,keyasint,omitempty" json:"silent,omitempty"` // hosts and procs that never replied
}

// Location is the place of a rank of a world.
type Location struct {
	World  string          `cbor:"1,keyasint" json:"world"`
	Proc   subjects.ProcID `cbor:"2,keyasint" json:"proc"` // the newest one of the rank
	Host   string          `cbor:"3,keyasint,omitempty" json:"host,omitempty"`
	Health Health          `cbor:"4,keyasint" json:"health"`
	Reason string          `cbor:"5,keyasint,omitempty" json:"reason,omitempty"`
}

// DetachRequest hands a mesh over to the system controller, which then owns it, renews the lease,
// and keeps the policy.
type DetachRequest struct {
	Mesh          subjects.MeshID          `cbor:"1,keyasint" json:"mesh"`
	Claim         agent.Claim              `cbor:"2,keyasint" json:"claim"` // of the owner
	Hosts         []subjects.HostID        `cbor:"3,keyasint" json:"hosts"` // hosts that may run procs of the mesh
	Lease         time.Duration            `cbor:"4,keyasint,omitempty" json:"lease,omitempty"`
	RestartPolicy controller.RestartPolicy `cbor:"5,keyasint" json:"restart_policy"`
	Display       string                   `cbor:"6,keyasint,omitempty" json:"display,omitempty"`
}

// DetachResponse is the system controller's claim on a mesh.
type DetachResponse struct {
	Mesh    subjects.MeshID `cbor:"1,keyasint" json:"mesh"`
	Claim   agent.Claim     `cbor:"2,keyasint" json:"claim"`
	Durable bool            `cbor:"3,keyasint" json:"durable"` // the mesh outlives the system controller
}

// AdoptRequest adopts a detached mesh: it names the future owner and the present owner's epoch.
// After the takeover the adopter confirms with another AdoptRequest, in its own epoch. Until then
// the system controller keeps the mesh.
type AdoptRequest struct {
	Mesh  subjects.MeshID `cbor:"1,keyasint" json:"mesh"`
	Claim agent.Claim     `cbor:"2,keyasint" json:"claim"`
}

// AdoptResponse is the mesh as it was detached, and the claim that the adopter replaces.
type AdoptResponse struct {
	Request DetachRequest `cbor:"1,keyasint" json:"request"`
	Claim   agent.Claim   `cbor:"2,keyasint" json:"claim"`
}

// DetachedState is a detached mesh.
type DetachedState struct {
	Mesh  subjects.MeshID `cbor:"1,keyasint" json:"mesh"`
	Claim agent.Claim     `cbor:"2,keyasint" json:"claim"`
	Age   time.Duration   `cbor:"3,keyasint" json:"age"`
	// why the hosts have not confirmed it
	Reason string        `cbor:"4,keyasint,omitempty" json:"reason,omitempty"`
	Lease  time.Duration `cbor:"5,keyasint,omitempty" json:"lease,omitempty"`
}

// DetachedRecord is the saved state of a detached mesh.
type DetachedRecord struct {
	DetachRequest
	// of the program that detached it
	OriginalClaim agent.Claim `cbor:"11,keyasint" json:"original_claim"`
	CurrentClaim  agent.Claim `cbor:"12,keyasint" json:"current_claim"` // of the system
	// of the system and of adopters
	FormerClaims []agent.Claim `cbor:"13,keyasint,omitempty" json:"former_claims,omitempty"`
	AdopterClaim *agent.Claim  `cbor:"14,keyasint,omitempty" json:"adopter_claim,omitempty"` // of the present adopter
	// of who detached it, the zero one for a program in the process of the system controller
	By subjects.Sender `cbor:"15,keyasint,omitzero" json:"by,omitzero"`
}

// Record is the saved state of a world: its declaration and its assignments.
type Record struct {
	Name           string            `cbor:"1,keyasint" json:"name"`
	Spec           *Spec             `cbor:"2,keyasint,omitempty" json:"spec,omitempty"`
	Mesh           string            `cbor:"3,keyasint,omitempty" json:"mesh,omitempty"`
	Labels         map[string]string `cbor:"4,keyasint,omitempty" json:"labels,omitempty"`
	Hosts          []HostAssignment  `cbor:"5,keyasint,omitempty" json:"hosts,omitempty"`
	Procs          []SelfJoined      `cbor:"6,keyasint,omitempty" json:"procs,omitempty"`
	StoppingReason string            `cbor:"7,keyasint,omitempty" json:"stopping_reason,omitempty"`
	// next generation by host rank
	Gens map[int]int `cbor:"8,keyasint,omitempty" json:"gens,omitempty"`

	Detached *DetachedRecord  `cbor:"9,keyasint,omitempty" json:"detached,omitempty"`  // set: not a world
	Reserved *NameReservation `cbor:"10,keyasint,omitempty" json:"reserved,omitempty"` // set: not a world
}

// HostAssignment is the place of a host in a world.
type HostAssignment struct {
	Host        subjects.HostID   `cbor:"1,keyasint" json:"host"`
	Rank        int               `cbor:"2,keyasint" json:"rank"`
	Incarnation string            `cbor:"3,keyasint,omitempty" json:"incarnation,omitempty"`
	Gen         int               `cbor:"4,keyasint,omitempty" json:"gen,omitempty"` // of its procs
	Labels      map[string]string `cbor:"5,keyasint,omitempty" json:"labels,omitempty"`
	// the incarnation that got the order
	OrderedIn string `cbor:"6,keyasint,omitempty" json:"ordered_in,omitempty"`
}

// SelfJoined is a proc that joined without a host's order.
type SelfJoined struct {
	ID     subjects.ProcID   `cbor:"1,keyasint" json:"id"`
	Mode   Mode              `cbor:"2,keyasint,omitempty" json:"mode,omitempty"`
	Labels map[string]string `cbor:"3,keyasint,omitempty" json:"labels,omitempty"`
}
