package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Name is the name of the agent on every host's and every worker's proc.
const Name = "agent"

// HostType is the actor type of the agents of hosts, which tells them from others in events.
const HostType = "host-agent"

// Builtin as a Command's Path stands for the host's own binary with its built-in actors.
const Builtin = "builtin"

// Agent is what an agent can be asked. Host agents, proc agents and controllers implement it.
type Agent interface {
	Create(*actor.Context, Creation) (Overlay, error)
	Stop(*actor.Context, Stopping) (Overlay, error)
	Get(*actor.Context, Query) ([]State, error)
	Wait(*actor.Context, Waiting) (Overlay, error)
	Keepalive(*actor.Context, Lease) (Overlay, error)
	Stream(*actor.Context, Stream) (actor.None, error)
	Logs(*actor.Context, LogQuery) ([]LogTail, error)
	Ping(*actor.Context, actor.None) (actor.None, error)
}

// The endpoints of the protocol, and those that only host agents serve.
var (
	Create    = actor.NewEndpoint[Agent, Creation, Overlay]("create", MergeOverlays)
	Stop      = actor.NewEndpoint[Agent, Stopping, Overlay]("stop", MergeOverlays)
	Get       = actor.NewEndpoint[Agent, Query, []State]("get", JoinStates)
	Wait      = actor.NewEndpoint[Agent, Waiting, Overlay]("wait", MergeOverlays)
	Keepalive = actor.NewEndpoint[Agent, Lease, Overlay]("keepalive", MergeOverlays)
	Streaming = actor.NewEndpoint[Agent, Stream, actor.None]("stream")
	Logs      = actor.NewEndpoint[Agent, LogQuery, []LogTail]("logs")
	Ping      = actor.NewEndpoint[Agent, actor.None, actor.None]("ping")

	Info  = actor.NewEndpoint[Agent, actor.None, HostInfo]("info")
	Ready = actor.NewEndpoint[Agent, Readiness, actor.None]("ready")
)

// Methods binds the endpoints of the protocol to an implementation.
func Methods() []actor.Method[Agent] {
	return []actor.Method[Agent]{
		Create.By(Agent.Create), Stop.By(Agent.Stop), Get.By(Agent.Get), Wait.By(Agent.Wait),
		Keepalive.By(Agent.Keepalive), Streaming.By(Agent.Stream), Logs.By(Agent.Logs), Ping.By(Agent.Ping),
	}
}

// MergeOverlays folds the overlays of agents that have different ranks.
var MergeOverlays = actor.NewReducer("overlays", func(a, b Overlay) (Overlay, error) { return a.Merge(b), nil })

// JoinStates puts the states of agents behind each other, in rank order.
var JoinStates = actor.NewReducer("states", func(a, b []State) ([]State, error) { return slices.Concat(a, b), nil })

// Of addresses the agent of a proc.
func Of(p subjects.ProcID) actor.Ref[Agent] { return actor.RefOf[Agent](p.Actor(Name)) }

// Command is the program a proc runs. The zero Command is the caller's own executable, which must
// exist on the host under the same path.
type Command struct {
	Path string   `cbor:"1,keyasint,omitempty" json:"path,omitempty"` // absolute, or Builtin
	Args []string `cbor:"2,keyasint,omitempty" json:"args,omitempty"`
	Env  []string `cbor:"3,keyasint,omitempty" json:"env,omitempty"` // KEY=value, added to the host's allow-listed ones
	Dir  string   `cbor:"4,keyasint,omitempty" json:"dir,omitempty"`
}

// Mesh describes a proc mesh: enough for any process to address, cast to and place every rank.
type Mesh struct {
	ID      subjects.MeshID   `cbor:"1,keyasint" json:"id"`
	Extent  shape.Extent      `cbor:"2,keyasint" json:"extent"` // host dimensions, then those per host
	Hosts   []subjects.HostID `cbor:"3,keyasint" json:"hosts"`  // in rank order
	PerHost int               `cbor:"4,keyasint" json:"per_host"`
	Owner   subjects.ActorID  `cbor:"5,keyasint" json:"owner"` // the controller
	Command Command           `cbor:"6,keyasint" json:"command"`
	Build   string            `cbor:"7,keyasint,omitempty" json:"build,omitempty"` // the caller's; "" = any
}

// MaxPerHost is how many procs of one mesh a host runs at most.
const MaxPerHost = 4096

// Check refuses a description whose parts do not fit together.
func (m Mesh) Check() error {
	hosts, n := len(m.Hosts), m.Extent.NumRanks()
	switch {
	case !m.ID.IsValid():
		return errors.New("the mesh has no ID")
	case hosts == 0:
		return fmt.Errorf("mesh %s has no hosts", m.ID)
	case m.PerHost > MaxPerHost:
		return fmt.Errorf("mesh %s: %d procs on each host: want at most %d", m.ID, m.PerHost, MaxPerHost)
	case m.PerHost < 1 || m.PerHost > n || m.PerHost*hosts != n:
		return fmt.Errorf("mesh %s: %d hosts × %d procs are not the %d ranks of %q", m.ID, hosts, m.PerHost, n, m.Extent)
	}
	return nil
}

// Creation asks for a resource. Exactly one of Procs and Actors is set.
type Creation struct {
	Procs  *Mesh         `cbor:"1,keyasint,omitempty" json:"procs,omitempty"`  // of a host agent: its share of the mesh
	Actors *ActorSpec    `cbor:"2,keyasint,omitempty" json:"actors,omitempty"` // of a proc agent: one actor
	Lease  time.Duration `cbor:"3,keyasint,omitempty" json:"lease,omitempty"`  // stop it when no Keepalive came for so long; 0 = never
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
}

// Query asks what is there; an empty ID asks for everything.
type Query struct {
	ID string `cbor:"1,keyasint,omitempty" json:"id,omitempty"`
}

// Waiting waits until every rank of a resource has reached a phase, or is terminal.
type Waiting struct {
	ID    string `cbor:"1,keyasint" json:"id"`
	Until Phase  `cbor:"2,keyasint" json:"until"`
}

// Lease keeps a resource alive for another while from now, on the agent's own clock.
type Lease struct {
	ID  string        `cbor:"1,keyasint" json:"id"`
	For time.Duration `cbor:"2,keyasint" json:"for"`
}

// Stream asks for the events of a resource, or of all when ID is empty, from now on, until the
// port is gone or says that it wants no more.
type Stream struct {
	ID  string                     `cbor:"1,keyasint,omitempty" json:"id,omitempty"`
	To  actor.PortRef[actor.Event] `cbor:"2,keyasint" json:"to"`
	End bool                       `cbor:"3,keyasint,omitempty" json:"end,omitempty"` // the port wants no more
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

// State is everything an agent says about one rank of a resource.
type State struct {
	ID         string     `cbor:"1,keyasint" json:"id"`
	Rank       int        `cbor:"2,keyasint" json:"rank"`
	Status     Status     `cbor:"3,keyasint" json:"status"`
	Generation uint64     `cbor:"4,keyasint" json:"generation"` // counts its changes
	Proc       *ProcState `cbor:"5,keyasint,omitempty" json:"proc,omitempty"`
	Actor      *ActorInfo `cbor:"6,keyasint,omitempty" json:"actor,omitempty"`
	Mesh       *Mesh      `cbor:"7,keyasint,omitempty" json:"mesh,omitempty"` // of a host agent, on the first of its ranks: the mesh
}

// ProcState is what a host agent knows about an OS process.
type ProcState struct {
	PID        int       `cbor:"1,keyasint,omitempty" json:"pid,omitempty"`
	Started    time.Time `cbor:"2,keyasint" json:"started"`
	ExitCode   *int      `cbor:"3,keyasint,omitempty" json:"exit_code,omitempty"`
	Signal     int       `cbor:"4,keyasint,omitempty" json:"signal,omitempty"`
	StderrTail []string  `cbor:"5,keyasint,omitempty" json:"stderr_tail,omitempty"`
	Host       string    `cbor:"6,keyasint,omitempty" json:"host,omitempty"`
}

// ActorInfo is what a proc agent knows about an actor.
type ActorInfo struct {
	Type      string   `cbor:"1,keyasint" json:"type"`
	Queued    int      `cbor:"2,keyasint" json:"queued"`
	Handled   uint64   `cbor:"3,keyasint" json:"handled"`
	Current   string   `cbor:"4,keyasint,omitempty" json:"current,omitempty"`
	Endpoints []string `cbor:"5,keyasint,omitempty" json:"endpoints,omitempty"`
	Managed   bool     `cbor:"6,keyasint,omitempty" json:"managed,omitempty"` // created through the agent

	// Reducers are those that endpoints declare, by the endpoint's name.
	Reducers map[string][]string `cbor:"7,keyasint,omitempty" json:"reducers,omitempty"`
}

// HostInfo introduces a host.
type HostInfo struct {
	ID      subjects.HostID `cbor:"1,keyasint" json:"id"`
	Label   string          `cbor:"2,keyasint" json:"label"`
	Version string          `cbor:"3,keyasint" json:"version"`
	Build   string          `cbor:"4,keyasint" json:"build"`
	PID     int             `cbor:"5,keyasint" json:"pid"`
	Procs   int             `cbor:"6,keyasint" json:"procs"` // alive
	Started time.Time       `cbor:"7,keyasint" json:"started"`
	CPUs    int             `cbor:"8,keyasint" json:"cpus"`
}

// Readiness is a new proc's first word to its host: it can be reached.
type Readiness struct {
	Proc  subjects.ProcID `cbor:"1,keyasint" json:"proc"`
	Nonce string          `cbor:"2,keyasint" json:"nonce"` // proves that it is the child that was launched
	Build string          `cbor:"3,keyasint" json:"build"`
	Types []string        `cbor:"4,keyasint" json:"types"`
}
