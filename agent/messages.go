package agent

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Name is the name of the agent on every host's and every worker's proc.
const Name = "agent"

// HostType is the actor type of host agents. Events name it.
const HostType = "host-agent"

// Agent is the set of requests that every agent serves. Host agents, proc agents and controllers
// implement it.
type Agent interface {
	Create(*actor.Context, CreateRequest) (Overlay, error)
	Stop(*actor.Context, StopRequest) (Overlay, error)
	StopAll(*actor.Context, StopAllRequest) (StopSummary, error)
	Get(*actor.Context, GetRequest) ([]State, error)
	Wait(*actor.Context, WaitRequest) (Overlay, error)
	Keepalive(*actor.Context, Lease) (Overlay, error)
	Logs(*actor.Context, LogsRequest) ([]LogTail, error)
	Ping(*actor.Context, actor.None) (actor.None, error)
}

// Endpoints of the protocol, those of host agents only, and the one of proc agents only.
var (
	Create    = actor.NewEndpoint[Agent, CreateRequest, Overlay]("create", MergeOverlays)
	Stop      = actor.NewEndpoint[Agent, StopRequest, Overlay]("stop", MergeOverlays)
	StopAll   = actor.NewEndpoint[Agent, StopAllRequest, StopSummary]("stop-all", MergeSummaries)
	Get       = actor.NewEndpoint[Agent, GetRequest, []State]("get", JoinStates)
	Wait      = actor.NewEndpoint[Agent, WaitRequest, Overlay]("wait", MergeOverlays)
	Keepalive = actor.NewEndpoint[Agent, Lease, Overlay]("keepalive", MergeOverlays)
	Logs      = actor.NewEndpoint[Agent, LogsRequest, []LogTail]("logs")
	Ping      = actor.NewEndpoint[Agent, actor.None, actor.None]("ping")

	Info     = actor.NewEndpoint[Agent, actor.None, HostInfo]("info")
	Attach   = actor.NewEndpoint[Agent, config.Snapshot, HostInfo]("attach")
	Types    = actor.NewEndpoint[Agent, string, []string]("types") // of a mesh's procs; none: unknown
	Cordon   = actor.NewEndpoint[Agent, CordonRequest, HostInfo]("cordon")
	Drain    = actor.NewEndpoint[Agent, DrainRequest, StopSummary]("drain")
	TakeHost = actor.NewEndpoint[Agent, TakeHostRequest, HostInfo]("take")
	Ready    = actor.NewEndpoint[Agent, ReadyReport, actor.None]("ready")

	// Only controllers serve these.
	Evacuate   = actor.NewEndpoint[Agent, EvacuateRequest, EvacuateResponse]("evacuate")
	Restart    = actor.NewEndpoint[Agent, RestartRequest, Overlay]("restart")
	AwaitActor = actor.NewEndpoint[Agent, AwaitActorRequest, actor.None]("await-actor")
	ListEvents = actor.NewEndpoint[Agent, ListEventsRequest, EventList]("list-events")
	Resize     = actor.NewEndpoint[Agent, ResizeRequest, ResizeResponse]("resize")
	Invite     = actor.NewEndpoint[Agent, InviteRequest, InviteResponse]("invite")
	Join       = actor.NewEndpoint[Agent, JoinRequest, JoinResponse]("join")
	Follow     = actor.NewEndpoint[Agent, FollowRequest, Overlay]("follow")
	Revision   = actor.NewEndpoint[Agent, RevisionRequest, RevisionResponse]("revision")

	// Readopt is served by proc agents only.
	Readopt = actor.NewEndpoint[Agent, ReadoptRequest, ReadoptResponse]("readopt")
)

// VerbKind is the kind of the subject for a verb that a plain client sends to a host's agent: the
// verb reads, so that observers may use it, or the agent acts.
func VerbKind(verb string) subjects.Kind {
	switch verb {
	case Info.Name(), Get.Name(), Ping.Name(), Logs.Name(), Wait.Name(), GetConfig.Name(), ListEvents.Name(),
		Types.Name(), GetMetrics.Name():
		return subjects.KindHostRead
	}
	return subjects.KindHostWrite
}

// Methods binds the endpoints of the protocol to an implementation.
func Methods() []actor.Method[Agent] {
	return []actor.Method[Agent]{
		Create.Handle(Agent.Create).Audited(), Stop.Handle(stop).Urgent().Audited(),
		StopAll.Handle(Agent.StopAll).Urgent().Audited(),
		Get.Handle(Agent.Get), Wait.Handle(Agent.Wait),
		Keepalive.Handle(Agent.Keepalive).Urgent(), Logs.Handle(Agent.Logs), Ping.Handle(Agent.Ping),
	}
}

// MergeOverlays folds overlays of disjoint ranks.
var MergeOverlays = actor.NewReducer("overlays",
	func(a, b Overlay) (Overlay, error) { return a.Merge(b), nil })

// MergeSummaries adds up the stop summaries of agents.
var MergeSummaries = actor.NewReducer("summaries",
	func(a, b StopSummary) (StopSummary, error) { return a.Merge(b), nil })

// JoinStates concatenates the states of agents in rank order.
var JoinStates = actor.NewReducer("states",
	func(a, b []State) ([]State, error) { return slices.Concat(a, b), nil })

// Of returns a reference to the agent of a proc.
func Of(p subjects.ProcID) actor.Ref[Agent] { return actor.RefOf[Agent](p.Actor(Name)) }

// CreateRequest asks for a resource. Exactly one of Procs and Actors is set.
//
// A repeated spec changes nothing (AGT-1), with two exceptions. If the resource was stopped, or if
// Gen requests it, ended ranks start their next generation.
type CreateRequest struct {
	// for a host agent: its share of the mesh
	Procs  *Mesh      `cbor:"1,keyasint,omitempty" json:"procs,omitempty"`
	Actors *ActorSpec `cbor:"2,keyasint,omitempty" json:"actors,omitempty"` // for a proc agent: one actor
	// stop after this long without Keepalive; 0 = never
	Lease time.Duration `cbor:"3,keyasint,omitempty" json:"lease,omitempty"`
	// requested generation; 0 = the first, or the next after a stop
	Gen int `cbor:"4,keyasint,omitempty" json:"gen,omitempty"`
	// only these ranks of the agent; none = all
	Ranks []int `cbor:"5,keyasint,omitempty" json:"ranks,omitempty"`
	// reply when every rank runs or has ended
	Wait bool `cbor:"6,keyasint,omitempty" json:"wait,omitempty"`

	// Config is the client's configuration for the procs. The host uses it for them, too.
	Config config.Snapshot `cbor:"7,keyasint,omitzero" json:"config,omitzero"`

	// Epoch is the term of the requesting system controller, 0 from others. A host refuses outdated
	// terms.
	Epoch uint64 `cbor:"8,keyasint,omitempty" json:"epoch,omitempty"`
	// HostIncarnation is the expected incarnation of the host (HostInfo.Incarnation); "" = any. A
	// host with a different incarnation refuses.
	HostIncarnation string `cbor:"9,keyasint,omitempty" json:"host_incarnation,omitempty"`
	// Claim is the owner's claim (AGT-10).
	Claim Claim `cbor:"10,keyasint,omitzero" json:"claim,omitzero"`
}

// EpochError refuses the order of a former system controller.
type EpochError struct {
	Host               string // the host's label
	Requested, Current uint64
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("host %s: the request is of epoch %d, older than epoch %d", e.Host, e.Requested,
		e.Current)
}

// ActorSpec is an actor to spawn on every proc of a mesh.
type ActorSpec struct {
	Name   string           `cbor:"1,keyasint" json:"name"` // label-uid, also the name of the actor mesh
	Type   string           `cbor:"2,keyasint" json:"type"`
	Params []byte           `cbor:"3,keyasint,omitempty" json:"params,omitempty"` // CBOR
	Owner  subjects.ActorID `cbor:"4,keyasint" json:"owner"`                      // the controller
	// Linked actors have no controller: they stop once Owner is gone, the actor that spawned them.
	Linked bool `cbor:"5,keyasint,omitempty" json:"linked,omitempty"`
}

// StopRequest stops a resource. Procs get TERM, after Grace KILL. Actors drain.
type StopRequest struct {
	ID     string        `cbor:"1,keyasint" json:"id"`
	Reason string        `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
	Grace  time.Duration `cbor:"3,keyasint,omitempty" json:"grace,omitempty"` // 0 = 10 s
	Epoch  uint64        `cbor:"4,keyasint,omitempty" json:"epoch,omitempty"` // as in CreateRequest

	// Region selects ranks of the mesh to stop and await; nil selects all. An owner answers by rank
	// of the region, a host by rank of the mesh. Procs that share a process stop together.
	Region *shape.Region `cbor:"5,keyasint,omitempty" json:"region,omitempty"`

	Claim Claim `cbor:"6,keyasint,omitzero" json:"claim,omitzero"` // as in CreateRequest
}

// StopAllRequest stops everything of an agent. The agent refuses Create from then on, replies when
// all has ended, and ends: a proc its process, a host its agent, a controller itself.
type StopAllRequest struct {
	Reason string        `cbor:"1,keyasint,omitempty" json:"reason,omitempty"`
	Grace  time.Duration `cbor:"2,keyasint,omitempty" json:"grace,omitempty"` // as in StopRequest
	// concurrent stops of a host, 1 to 256; 0 = the host's own limit
	MaxConcurrent int `cbor:"3,keyasint,omitempty" json:"max_concurrent,omitempty"`
}

// GetRequest asks for the states of a resource. An empty ID asks for all.
type GetRequest struct {
	ID      string `cbor:"1,keyasint,omitempty" json:"id,omitempty"`
	Schemas bool   `cbor:"2,keyasint,omitempty" json:"schemas,omitempty"` // include the schemas of endpoints
	Usage   bool   `cbor:"3,keyasint,omitempty" json:"usage,omitempty"`   // measure the procs of a host
}

// WaitRequest waits until every rank of a resource has reached the phase Until, or has ended, or
// with OrFailed until one has failed.
type WaitRequest struct {
	ID    string `cbor:"1,keyasint" json:"id"`
	Until Phase  `cbor:"2,keyasint" json:"until"`
	// limits the wait to these ranks; nil: all
	Region *shape.Region `cbor:"3,keyasint,omitempty" json:"region,omitempty"`

	OrFailed bool `cbor:"4,keyasint,omitempty" json:"or_failed,omitempty"` // a failed rank ends it, too
}

// Lease renews the lease of a resource from now, on the agent's clock. 0 only reads the statuses. A
// Claim later than the owner's takes the resource over.
type Lease struct {
	ID    string        `cbor:"1,keyasint" json:"id"`
	TTL   time.Duration `cbor:"2,keyasint" json:"ttl"`
	Claim Claim         `cbor:"3,keyasint,omitzero" json:"claim,omitzero"` // as in CreateRequest
	// Mesh is the mesh after a Grow or Shrink, for a host that may not know it.
	Mesh *Mesh `cbor:"4,keyasint,omitempty" json:"mesh,omitempty"`
}

// Forever is the lease of a resource that no longer expires.
const Forever = 100 * 365 * 24 * time.Hour

// LogsRequest asks for log lines of the procs of a mesh. By itself it reads the last 64 KiB of each
// output; with Since or Grep it searches the last 8 MiB. With Follow it reads on from positions.
type LogsRequest struct {
	ID    string    `cbor:"1,keyasint" json:"id"`
	Lines int       `cbor:"2,keyasint" json:"lines"`                    // of each output, at most
	Since time.Time `cbor:"3,keyasint,omitzero" json:"since,omitzero"`  // only lines from then on
	Grep  string    `cbor:"4,keyasint,omitempty" json:"grep,omitempty"` // only lines that match (RE2)

	// limits the reply to these ranks; nil: all
	Region *shape.Region `cbor:"5,keyasint,omitempty" json:"region,omitempty"`
	Follow *LogFollow    `cbor:"6,keyasint,omitempty" json:"follow,omitempty"`
}

// LogFollow asks for the whole lines after known positions. The reply has the outputs with a new
// position, and no line twice: the next request has these positions. A host keeps nothing between
// two requests.
type LogFollow struct {
	// Of outputs without a position the reply has Lines and Since if Tail is set, and then no output
	// of earlier generations; else it begins with the first line.
	From []LogPosition `cbor:"1,keyasint,omitempty" json:"from,omitempty"`
	Tail bool          `cbor:"2,keyasint,omitempty" json:"tail,omitempty"`

	Delay time.Duration `cbor:"3,keyasint,omitempty" json:"delay,omitempty"` // before the host reads
	Wait  time.Duration `cbor:"4,keyasint,omitempty" json:"wait,omitempty"`  // then, for a line; 0: none
	Bytes int           `cbor:"5,keyasint,omitempty" json:"bytes,omitempty"` // of lines; 0: 512 KiB, the most
}

// LogPosition is the offset of the next line in an output of a proc.
type LogPosition struct {
	Rank   int    `cbor:"1,keyasint" json:"rank"`
	Gen    int    `cbor:"2,keyasint,omitempty" json:"gen,omitempty"`
	Stream string `cbor:"3,keyasint" json:"stream"`
	Offset int64  `cbor:"4,keyasint,omitempty" json:"offset,omitempty"`
}

// MaxGrep bounds the length of LogsRequest.Grep.
const MaxGrep = 1 << 10

// Pattern compiles Grep; nil: all lines match.
func (q LogsRequest) Pattern() (*regexp.Regexp, error) {
	if q.Grep == "" {
		return nil, nil
	}
	if len(q.Grep) > MaxGrep {
		return nil, fmt.Errorf("pattern of %d bytes: want at most %d", len(q.Grep), MaxGrep)
	}
	return regexp.Compile(q.Grep)
}

// LogTail is the end of one output of a proc, or with Follow the part of it after a position.
type LogTail struct {
	Rank   int      `cbor:"1,keyasint" json:"rank"`
	Stream string   `cbor:"2,keyasint" json:"stream"` // stdout or stderr
	Lines  []string `cbor:"3,keyasint" json:"lines"`
	// of Lines: when the host read them, in milliseconds since 1970; 0: unknown
	Times []int64 `cbor:"4,keyasint,omitempty" json:"times,omitempty"`

	// With Follow only. Dropped output lies before Lines; the reader was too slow. The bytes are
	// those that the host can no longer count as lines.
	Gen          int   `cbor:"5,keyasint,omitempty" json:"gen,omitempty"`
	Next         int64 `cbor:"6,keyasint,omitempty" json:"next,omitempty"` // the position after Lines
	More         bool  `cbor:"7,keyasint,omitempty" json:"more,omitempty"` // further lines are there
	DroppedLines int   `cbor:"8,keyasint,omitempty" json:"dropped_lines,omitempty"`
	DroppedBytes int64 `cbor:"9,keyasint,omitempty" json:"dropped_bytes,omitempty"`
}

// Position is the offset of the line after Lines.
func (t LogTail) Position() LogPosition { return LogPosition{t.Rank, t.Gen, t.Stream, t.Next} }

// Time returns when the host read a line; the zero time: unknown.
func (t LogTail) Time(line int) time.Time {
	if line >= len(t.Times) || t.Times[line] == 0 {
		return time.Time{}
	}
	return time.UnixMilli(t.Times[line])
}

// CordonRequest closes a host to new procs, or reopens it. Running procs are not affected.
type CordonRequest struct {
	Cordon bool   `cbor:"1,keyasint" json:"cordon"`
	Reason string `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
}

// TakeHostRequest makes the sending process the owner of a host. Only the owner may drain the host
// or stop it. Force takes the host from its present owner.
type TakeHostRequest struct {
	Force   bool `cbor:"1,keyasint,omitempty" json:"force,omitempty"`
	Release bool `cbor:"2,keyasint,omitempty" json:"release,omitempty"` // give up ownership
}

// DrainRequest asks a host to stop the procs of one mesh, or of all, and to stay. While it stops
// them, it takes no new procs of that mesh, or none at all.
type DrainRequest struct {
	Mesh   string        `cbor:"1,keyasint,omitempty" json:"mesh,omitempty"` // "" = all
	Reason string        `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
	Grace  time.Duration `cbor:"3,keyasint,omitempty" json:"grace,omitempty"` // 0 = 10 s
	// concurrent stops, 1 to 256 (0 = 16), or moves (0 = 1)
	MaxConcurrent int `cbor:"4,keyasint,omitempty" json:"max_concurrent,omitempty"`
}

// EvacuateRequest asks the owner of a mesh to move its ranks off a host. A draining host sends it.
type EvacuateRequest struct {
	Host   subjects.HostID `cbor:"1,keyasint" json:"host"`
	Reason string          `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
	Grace  time.Duration   `cbor:"3,keyasint,omitempty" json:"grace,omitempty"` // as in StopRequest
	// concurrent moves, 1 to MaxConcurrentMoves; 0 = 1
	MaxConcurrent int `cbor:"4,keyasint,omitempty" json:"max_concurrent,omitempty"`
}

// MaxConcurrentMoves bounds the ranks of a host that move or stop at a time.
const MaxConcurrentMoves = 256

// EvacuateResponse counts the moved ranks. The mesh's policy has no place for the others, which
// stay.
type EvacuateResponse struct {
	Moved int `cbor:"1,keyasint" json:"moved"`
}

// RestartRequest asks the owner of a proc mesh to restart healthy ranks in place, each as its next
// generation. The reply is by rank of the region, as for StopRequest.
type RestartRequest struct {
	Region *shape.Region `cbor:"1,keyasint,omitempty" json:"region,omitempty"` // nil: all
	Reason string        `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
	Grace  time.Duration `cbor:"3,keyasint,omitempty" json:"grace,omitempty"` // as in StopRequest
	ID     string        `cbor:"4,keyasint" json:"id"`                        // of the mesh
}

// ResizeRequest asks the owner of a proc mesh to add hosts, or to remove the last ones. Exactly one
// of Add and Remove is set.
type ResizeRequest struct {
	ID     string            `cbor:"1,keyasint" json:"id"` // of the mesh
	Add    []subjects.HostID `cbor:"2,keyasint,omitempty" json:"add,omitempty"`
	Remove int               `cbor:"3,keyasint,omitempty" json:"remove,omitempty"`
	Reason string            `cbor:"4,keyasint,omitempty" json:"reason,omitempty"` // of the removed procs' ends
	// the time for added ranks to run; 0: as for a spawn
	Timeout time.Duration `cbor:"5,keyasint,omitempty" json:"timeout,omitempty"`
}

// ResizeResponse is the mesh from now on, and the statuses of the added or removed ranks. If an
// added rank does not run, the mesh has its former hosts.
type ResizeResponse struct {
	Mesh     Mesh    `cbor:"1,keyasint" json:"mesh"`
	Statuses Overlay `cbor:"2,keyasint" json:"statuses"` // by rank of the mesh
}

// FollowRequest asks the owner of actors on a whole proc mesh to spawn them on added ranks, or to
// stop them on removed ones. The reply has the statuses there, by rank of the mesh.
type FollowRequest struct {
	Mesh Mesh `cbor:"1,keyasint" json:"mesh"` // as Public
}

// RevisionRequest asks the owner of a proc mesh for the mesh after a revision.
type RevisionRequest struct {
	ID    string `cbor:"1,keyasint" json:"id"`    // of the mesh
	After int    `cbor:"2,keyasint" json:"after"` // known to the caller
}

// RevisionResponse has the later mesh, and whether hosts are being added. Then the owner may have
// looked for the actors that follow already: new ones follow once it is over.
type RevisionResponse struct {
	Mesh    *Mesh `cbor:"1,keyasint,omitempty" json:"mesh,omitempty"` // as Public; nil: there is none
	Growing bool  `cbor:"2,keyasint,omitempty" json:"growing,omitempty"`
}

// AwaitActorRequest asks the owner of actors for a reply once the actor of a rank has ended, or
// runs in a proc of the given generation or a later one.
type AwaitActorRequest struct {
	Mesh subjects.MeshID `cbor:"1,keyasint" json:"mesh"` // mesh of the procs
	Rank int             `cbor:"2,keyasint" json:"rank"`
	Gen  int             `cbor:"3,keyasint" json:"gen"`
}

// ListEventsRequest asks a controller for the latest event of each rank that changed after a
// version. 0 asks for all.
type ListEventsRequest struct {
	After uint64 `cbor:"1,keyasint,omitempty" json:"after,omitempty"`
}

// EventList is the reply to a ListEventsRequest: as many events as fit one control message, in
// their order. A watcher that applies them has every event up to Version.
type EventList struct {
	Events  []actor.Event `cbor:"1,keyasint,omitempty" json:"events,omitempty"`
	Version uint64        `cbor:"2,keyasint" json:"version"`
	More    bool          `cbor:"3,keyasint,omitempty" json:"more,omitempty"` // events after Version exist
	Ranks   int           `cbor:"4,keyasint" json:"ranks"`                    // of the mesh of procs at Version
}

// ReadyReport is the first message of a new proc to its host. From now on the proc is reachable.
type ReadyReport struct {
	Proc  subjects.ProcID `cbor:"1,keyasint" json:"proc"`
	Proof []byte          `cbor:"2,keyasint" json:"proof"` // ProofReady, without a challenge
	Build string          `cbor:"3,keyasint" json:"build"`
	Types []string        `cbor:"4,keyasint" json:"types"`
}

// ReadoptRequest is the first message of a host to an adopted proc of an earlier host.
type ReadoptRequest struct {
	Proc      subjects.ProcID  `cbor:"1,keyasint" json:"proc"`
	Proof     []byte           `cbor:"2,keyasint" json:"proof"` // ProofReadopt
	Host      subjects.ActorID `cbor:"3,keyasint" json:"host"`  // the agent in charge from now on
	Challenge string           `cbor:"4,keyasint" json:"challenge"`
}

// ReadoptResponse confirms a ReadoptRequest.
type ReadoptResponse struct {
	PID   int    `cbor:"1,keyasint" json:"pid"`   // the host compares it with the PID it watches
	Proof []byte `cbor:"2,keyasint" json:"proof"` // ProofAdopted, for the challenge
}
