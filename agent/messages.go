package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Name is the name of the agent on every host's and every worker's proc.
const Name = "agent"

// HostType is the actor type of the agents of hosts, which tells them from others in events.
const HostType = "host-agent"

// Agent is what an agent can be asked. Host agents, proc agents and controllers implement it.
type Agent interface {
	Create(*actor.Context, Creation) (Overlay, error)
	Stop(*actor.Context, Stopping) (Overlay, error)
	StopAll(*actor.Context, StoppingAll) (Summary, error)
	Get(*actor.Context, Query) ([]State, error)
	Wait(*actor.Context, Waiting) (Overlay, error)
	Keepalive(*actor.Context, Lease) (Overlay, error)
	Stream(*actor.Context, Stream) (actor.None, error)
	Logs(*actor.Context, LogQuery) ([]LogTail, error)
	Ping(*actor.Context, actor.None) (actor.None, error)
}

// The endpoints of the protocol, those that only host agents serve, and the one that only proc agents do.
var (
	Create    = actor.NewEndpoint[Agent, Creation, Overlay]("create", MergeOverlays)
	Stop      = actor.NewEndpoint[Agent, Stopping, Overlay]("stop", MergeOverlays)
	StopAll   = actor.NewEndpoint[Agent, StoppingAll, Summary]("stop-all", MergeSummaries)
	Get       = actor.NewEndpoint[Agent, Query, []State]("get", JoinStates)
	Wait      = actor.NewEndpoint[Agent, Waiting, Overlay]("wait", MergeOverlays)
	Keepalive = actor.NewEndpoint[Agent, Lease, Overlay]("keepalive", MergeOverlays)
	Streaming = actor.NewEndpoint[Agent, Stream, actor.None]("stream")
	Logs      = actor.NewEndpoint[Agent, LogQuery, []LogTail]("logs")
	Ping      = actor.NewEndpoint[Agent, actor.None, actor.None]("ping")

	Info   = actor.NewEndpoint[Agent, actor.None, HostInfo]("info")
	Cordon = actor.NewEndpoint[Agent, Cordoning, HostInfo]("cordon")
	Drain  = actor.NewEndpoint[Agent, Draining, Summary]("drain")
	Take   = actor.NewEndpoint[Agent, Taking, HostInfo]("take")
	Ready  = actor.NewEndpoint[Agent, Readiness, actor.None]("ready")

	// What only controllers serve.
	Vacate  = actor.NewEndpoint[Agent, Vacating, Vacated]("vacate")
	Restart = actor.NewEndpoint[Agent, Restarting, Overlay]("restart")
	Arrive  = actor.NewEndpoint[Agent, Arriving, actor.None]("arrive")
	Ends    = actor.NewEndpoint[Agent, After, []actor.Event]("ends")

	// Readopt is what only proc agents serve.
	Readopt = actor.NewEndpoint[Agent, Readoption, Readopted]("readopt")
)

// Methods binds the endpoints of the protocol to an implementation.
func Methods() []actor.Method[Agent] {
	return []actor.Method[Agent]{
		Create.By(Agent.Create), Stop.By(stop).Urgent(), StopAll.By(Agent.StopAll).Urgent(), Get.By(Agent.Get), Wait.By(Agent.Wait),
		Keepalive.By(Agent.Keepalive).Urgent(), Streaming.By(Agent.Stream).Urgent(), Logs.By(Agent.Logs), Ping.By(Agent.Ping),
	}
}

// MergeOverlays folds the overlays of agents that have different ranks.
var MergeOverlays = actor.NewReducer("overlays", func(a, b Overlay) (Overlay, error) { return a.Merge(b), nil })

// MergeSummaries adds up what agents have stopped.
var MergeSummaries = actor.NewReducer("summaries", func(a, b Summary) (Summary, error) { return a.Merge(b), nil })

// JoinStates puts the states of agents behind each other, in rank order.
var JoinStates = actor.NewReducer("states", func(a, b []State) ([]State, error) { return slices.Concat(a, b), nil })

// Of addresses the agent of a proc.
func Of(p subjects.ProcID) actor.Ref[Agent] { return actor.RefOf[Agent](p.Actor(Name)) }

// Creation asks for a resource. Exactly one of Procs and Actors is set.
//
// The same spec again changes nothing (AGT-1), with two exceptions, which start ranks that have ended
// anew, as their next generation: when the resource was stopped, and when Gen says so.
type Creation struct {
	Procs  *Mesh         `cbor:"1,keyasint,omitempty" json:"procs,omitempty"`  // of a host agent: its share of the mesh
	Actors *ActorSpec    `cbor:"2,keyasint,omitempty" json:"actors,omitempty"` // of a proc agent: one actor
	Lease  time.Duration `cbor:"3,keyasint,omitempty" json:"lease,omitempty"`  // stop it when no Keepalive came for so long; 0 = never
	Gen    int           `cbor:"4,keyasint,omitempty" json:"gen,omitempty"`    // the generation asked for; 0 = the first, or whichever follows a stop
	Ranks  []int         `cbor:"5,keyasint,omitempty" json:"ranks,omitempty"`  // these of the agent's ranks only; none = all
	Wait   bool          `cbor:"6,keyasint,omitempty" json:"wait,omitempty"`   // answer when every rank runs or has ended

	// Config is what the creator's program pushes to the procs, and to their host for them.
	Config config.Snapshot `cbor:"7,keyasint,omitzero" json:"config,omitzero"`

	// Epoch is that of the system controller that asks, 0 of others: a host that has heard of a later one refuses.
	Epoch uint64 `cbor:"8,keyasint,omitempty" json:"epoch,omitempty"`
	// HostLife is the life of the host that is asked (HostInfo.Life); "" = any. Another one refuses.
	HostLife string `cbor:"9,keyasint,omitempty" json:"host_life,omitempty"`
	// Claim is in whose name (AGT-10).
	Claim Claim `cbor:"10,keyasint,omitzero" json:"claim,omitzero"`
}

// EpochError refuses the order of a system controller that another one has followed.
type EpochError struct {
	Host       string // its label
	Asked, Has uint64
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("host %s: the order is of epoch %d, and epoch %d has given orders since", e.Host, e.Asked, e.Has)
}

// ActorSpec is an actor to spawn on every proc of a mesh.
type ActorSpec struct {
	Name   string           `cbor:"1,keyasint" json:"name"` // label-uid: also the actor mesh's name
	Type   string           `cbor:"2,keyasint" json:"type"`
	Params []byte           `cbor:"3,keyasint,omitempty" json:"params,omitempty"` // CBOR
	Owner  subjects.ActorID `cbor:"4,keyasint" json:"owner"`                      // the controller
}

// Stopping asks a resource to stop: TERM, Grace, KILL for procs; drain for actors.
type Stopping struct {
	ID     string        `cbor:"1,keyasint" json:"id"`
	Reason string        `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
	Grace  time.Duration `cbor:"3,keyasint,omitempty" json:"grace,omitempty"` // 0 = 10 s
	Epoch  uint64        `cbor:"4,keyasint,omitempty" json:"epoch,omitempty"` // as in Creation

	// Region is some of the mesh's ranks: only they are stopped, and waited for. Nil is all. An owner answers by rank
	// of the region, a host by rank of the mesh. Procs that share a process are stopped together, or not at all.
	Region *shape.Region `cbor:"5,keyasint,omitempty" json:"region,omitempty"`

	Claim Claim `cbor:"6,keyasint,omitzero" json:"claim,omitzero"` // as in Creation
}

// StoppingAll asks an agent to stop everything it has, to create nothing any more, and, once that is
// done and answered, to end: a proc its process, a host its agent, a controller itself.
type StoppingAll struct {
	Reason string        `cbor:"1,keyasint,omitempty" json:"reason,omitempty"`
	Grace  time.Duration `cbor:"2,keyasint,omitempty" json:"grace,omitempty"` // as in Stopping
}

// Query asks what is there; an empty ID asks for everything.
type Query struct {
	ID      string `cbor:"1,keyasint,omitempty" json:"id,omitempty"`
	Schemas bool   `cbor:"2,keyasint,omitempty" json:"schemas,omitempty"` // with what endpoints take and answer
}

// Waiting waits for a condition on the ranks of a resource. Without Some and Every it is that every
// rank has reached the phase Until, or is terminal.
type Waiting struct {
	ID    string `cbor:"1,keyasint" json:"id"`
	Until Phase  `cbor:"2,keyasint" json:"until"`
	Some  Phases `cbor:"3,keyasint,omitempty" json:"some,omitempty"`  // it is enough that one rank is in one of these
	Every Phases `cbor:"4,keyasint,omitempty" json:"every,omitempty"` // every rank is in one of these, in place of Until

	Region *shape.Region `cbor:"5,keyasint,omitempty" json:"region,omitempty"` // it is about these ranks only; nil: all
}

// Lease keeps a resource alive for another while from now, on the agent's own clock. 0 changes nothing:
// what the answer says is all that is wanted. With a Claim later than that of the owner it takes the resource over.
type Lease struct {
	ID    string        `cbor:"1,keyasint" json:"id"`
	For   time.Duration `cbor:"2,keyasint" json:"for"`
	Claim Claim         `cbor:"3,keyasint,omitzero" json:"claim,omitzero"` // as in Creation
}

// Forever is the lease of what is to have none any more.
const Forever = 100 * 365 * 24 * time.Hour

// Stream asks for the changes of a resource, or of all when ID is empty: how it is now at once, then
// each change, until the port is gone or says that it wants no more.
type Stream struct {
	ID  string                     `cbor:"1,keyasint,omitempty" json:"id,omitempty"`
	To  actor.PortRef[actor.Event] `cbor:"2,keyasint" json:"to"`
	End bool                       `cbor:"3,keyasint,omitempty" json:"end,omitempty"` // the port wants no more

	// Beat asks for an event of step Beat so often, to know that the agent lives. Controllers send it.
	Beat time.Duration `cbor:"4,keyasint,omitempty" json:"beat,omitempty"`
}

// LogQuery asks for the last lines of the procs of a mesh.
type LogQuery struct {
	ID    string `cbor:"1,keyasint" json:"id"`
	Lines int    `cbor:"2,keyasint" json:"lines"`
}

// LogTail is the end of one output of one proc.
type LogTail struct {
	Rank   int      `cbor:"1,keyasint" json:"rank"`
	Stream string   `cbor:"2,keyasint" json:"stream"` // stdout or stderr
	Lines  []string `cbor:"3,keyasint" json:"lines"`
}

// Cordoning closes a host for new procs, or opens it again. What runs there is not touched.
type Cordoning struct {
	On     bool   `cbor:"1,keyasint" json:"on"`
	Reason string `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
}

// Taking makes the process that sends it the owner of a host: nobody else then drains it or has it leave.
// A host that has an owner is taken from it by Force alone.
type Taking struct {
	Force   bool `cbor:"1,keyasint,omitempty" json:"force,omitempty"`
	Release bool `cbor:"2,keyasint,omitempty" json:"release,omitempty"` // the owner lets go of it
}

// Draining asks a host to stop the procs of one mesh, or of all, and to stay. While it drains all, it
// takes no new ones.
type Draining struct {
	Mesh   string        `cbor:"1,keyasint,omitempty" json:"mesh,omitempty"` // "" = all
	Reason string        `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
	Grace  time.Duration `cbor:"3,keyasint,omitempty" json:"grace,omitempty"`   // 0 = 10 s
	AtOnce int           `cbor:"4,keyasint,omitempty" json:"at_once,omitempty"` // stops under way, 1 to 256; 0 = 16; and moves; 0 = 1
}

// Vacating asks the owner of a mesh to have what a host has of it elsewhere. A host asks so that is drained.
type Vacating struct {
	Host   subjects.HostID `cbor:"1,keyasint" json:"host"`
	Reason string          `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
	Grace  time.Duration   `cbor:"3,keyasint,omitempty" json:"grace,omitempty"`   // as in Stopping
	AtOnce int             `cbor:"4,keyasint,omitempty" json:"at_once,omitempty"` // ranks on their way, 1 to MaxAtOnce; 0 = 1
}

// MaxAtOnce is how many ranks of a host may be on their way, or stopped, at a time.
const MaxAtOnce = 256

// Vacated is how many ranks have moved. The others are still there: the policy of their mesh has no place for them.
type Vacated struct {
	Moved int `cbor:"1,keyasint" json:"moved"`
}

// Restarting asks the owner of a mesh of procs to end some that are well, and to start each anew where it is, as the
// next generation of its rank. The answer is by rank of the region, like that of Stopping.
type Restarting struct {
	Region *shape.Region `cbor:"1,keyasint,omitempty" json:"region,omitempty"` // nil: all
	Reason string        `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
	Grace  time.Duration `cbor:"3,keyasint,omitempty" json:"grace,omitempty"` // as in Stopping
	ID     string        `cbor:"4,keyasint" json:"id"`                        // of the mesh
}

// Arriving asks the owner of actors to answer once that of a rank runs in a proc of some generation of the rank, or a
// later one, or has ended.
type Arriving struct {
	Mesh subjects.MeshID `cbor:"1,keyasint" json:"mesh"` // of the procs
	Rank int             `cbor:"2,keyasint" json:"rank"`
	Gen  int             `cbor:"3,keyasint" json:"gen"`
}

// After asks the controller of a mesh for the ends that it has told its subscribers after the first so many: in the same order, as
// many as a message of the control lane holds. None is that there are no more.
type After struct {
	N int `cbor:"1,keyasint" json:"n"`
}

// Moving is the step of the event that says that a proc ends only because its rank goes on elsewhere, as its next
// generation: whoever has actors there waits for it.
const Moving = "proc.move.attempt"

// Readiness is a new proc's first word to its host: it can be reached.
type Readiness struct {
	Proc  subjects.ProcID `cbor:"1,keyasint" json:"proc"`
	Nonce string          `cbor:"2,keyasint" json:"nonce"` // proves that it is the child that was launched
	Build string          `cbor:"3,keyasint" json:"build"`
	Types []string        `cbor:"4,keyasint" json:"types"`
}

// Readoption is a host's first word to a proc that an earlier host of the machine launched and that it
// has adopted.
type Readoption struct {
	Proc  subjects.ProcID  `cbor:"1,keyasint" json:"proc"`
	Nonce string           `cbor:"2,keyasint" json:"nonce"` // proves that the host knows what the one knew that launched it
	Host  subjects.ActorID `cbor:"3,keyasint" json:"host"`  // the agent that watches it from now on
}

// Readopted is the answer of a proc that knows the nonce.
type Readopted struct {
	PID int `cbor:"1,keyasint" json:"pid"` // is to be the one that the host watches
}
