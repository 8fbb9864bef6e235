package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// State is an agent's record of one rank.
type State struct {
	ID       string     `cbor:"1,keyasint" json:"id"`
	Rank     int        `cbor:"2,keyasint" json:"rank"`
	Status   Status     `cbor:"3,keyasint" json:"status"`
	Revision uint64     `cbor:"4,keyasint" json:"revision"` // number of changes
	Proc     *ProcInfo  `cbor:"5,keyasint,omitempty" json:"proc,omitempty"`
	Actor    *ActorInfo `cbor:"6,keyasint,omitempty" json:"actor,omitempty"`
	// from a host agent, on its first rank: the mesh
	Mesh *Mesh `cbor:"7,keyasint,omitempty" json:"mesh,omitempty"`
	Gen  int   `cbor:"8,keyasint,omitempty" json:"gen,omitempty"` // generation of the rank

	// Lease is the TTL of the ranks' lease, set by host agents beside Mesh. 0: no expiry.
	Lease time.Duration `cbor:"9,keyasint,omitempty" json:"lease,omitempty"`
	// Claim is the owner's claim, set by host agents beside Mesh.
	Claim *Claim `cbor:"10,keyasint,omitempty" json:"claim,omitempty"`
	// Principal is that of the owner, set by host agents beside Mesh. Zero: unknown.
	Principal subjects.Principal `cbor:"11,keyasint,omitzero" json:"principal,omitzero"`
}

// ProcInfo is a host agent's record of an OS process.
type ProcInfo struct {
	PID        int          `cbor:"1,keyasint,omitempty" json:"pid,omitempty"`
	Started    time.Time    `cbor:"2,keyasint" json:"started"`
	ExitCode   *int         `cbor:"3,keyasint,omitempty" json:"exit_code,omitempty"`
	Signal     int          `cbor:"4,keyasint,omitempty" json:"signal,omitempty"`
	StderrTail []string     `cbor:"5,keyasint,omitempty" json:"stderr_tail,omitempty"`
	Host       string       `cbor:"6,keyasint,omitempty" json:"host,omitempty"`
	State      ProcessState `cbor:"7,keyasint" json:"state"`
	Core       bool         `cbor:"8,keyasint,omitempty" json:"core,omitempty"` // it left a core dump
	// killed by the kernel for lack of memory
	OOM     bool   `cbor:"9,keyasint,omitempty" json:"oom,omitempty"`
	Program string `cbor:"10,keyasint,omitempty" json:"program,omitempty"`
	// limits without effect here, with reasons
	Unenforced []string `cbor:"11,keyasint,omitempty" json:"unenforced,omitempty"`
	// launched by an earlier host on the machine
	Adopted bool `cbor:"12,keyasint,omitempty" json:"adopted,omitempty"`
	// still alive after its grace, then sent SIGKILL
	GraceExpired bool `cbor:"13,keyasint,omitempty" json:"grace_expired,omitempty"`
	// ended, but a descendant survives SIGKILL
	Survivors bool `cbor:"14,keyasint,omitempty" json:"survivors,omitempty"`

	// used by the process, without its descendants, on request (GetRequest.Usage); 0: unknown
	CPUTime time.Duration `cbor:"15,keyasint,omitempty" json:"cpu_time,omitempty"`
	Memory  int64         `cbor:"16,keyasint,omitempty" json:"memory,omitempty"` // resident bytes
}

// ActorInfo is a proc agent's record of an actor.
type ActorInfo struct {
	Type      string   `cbor:"1,keyasint" json:"type"`
	Queued    int      `cbor:"2,keyasint" json:"queued"`
	Handled   uint64   `cbor:"3,keyasint" json:"handled"`
	Current   string   `cbor:"4,keyasint,omitempty" json:"current,omitempty"`
	Endpoints []string `cbor:"5,keyasint,omitempty" json:"endpoints,omitempty"`
	Managed   bool     `cbor:"6,keyasint,omitempty" json:"managed,omitempty"` // created through the agent

	// Reducers are the declared reducers by endpoint.
	Reducers map[string][]string `cbor:"7,keyasint,omitempty" json:"reducers,omitempty"`

	// Schemas are JSON Schemas of messages and replies by endpoint, only on request.
	Schemas map[string]Schema `cbor:"8,keyasint,omitempty" json:"schemas,omitempty"`

	// Latency is the mean time of a message from the mailbox to the end of its handler.
	Latency time.Duration `cbor:"9,keyasint,omitempty" json:"latency,omitempty"`
}

// Schema holds the JSON Schemas of an endpoint's message and reply as text.
type Schema struct {
	In  string `cbor:"1,keyasint" json:"in"`
	Out string `cbor:"2,keyasint" json:"out"`
}

// HostInfo introduces a host.
type HostInfo struct {
	ID      subjects.HostID `cbor:"1,keyasint" json:"id"`
	Label   string          `cbor:"2,keyasint" json:"label"`
	Version string          `cbor:"3,keyasint" json:"version"`
	Build   string          `cbor:"4,keyasint" json:"build"`
	PID     int             `cbor:"5,keyasint" json:"pid"`
	Procs   int             `cbor:"6,keyasint" json:"procs"` // live procs
	Started time.Time       `cbor:"7,keyasint" json:"started"`
	CPUs    int             `cbor:"8,keyasint" json:"cpus"`

	Labels     map[string]string `cbor:"9,keyasint,omitempty" json:"labels,omitempty"`
	Mode       HostMode          `cbor:"10,keyasint" json:"mode"`
	ModeReason string            `cbor:"11,keyasint,omitempty" json:"mode_reason,omitempty"` // why it takes no procs
	// procs run in its own process
	Local bool   `cbor:"12,keyasint,omitempty" json:"local,omitempty"`
	Owner string `cbor:"14,keyasint,omitempty" json:"owner,omitempty"` // the owning process
	// how it ends the descendants of procs: cgroup, subreaper or group
	TreeControl string `cbor:"13,keyasint,omitempty" json:"tree_control,omitempty"`
	// latest known term of the system controller
	Epoch uint64 `cbor:"15,keyasint,omitempty" json:"epoch,omitempty"`
	// the host's clock at the time of the answer
	Now time.Time `cbor:"16,keyasint,omitzero" json:"now,omitzero"`

	// Revision grows, within one incarnation, with every change of Get's answer. 0: no resource so
	// far.
	Revision uint64 `cbor:"17,keyasint,omitempty" json:"revision,omitempty"`

	// why output of procs may be lost, such as a full disk
	LogTrouble string `cbor:"18,keyasint,omitempty" json:"log_trouble,omitempty"`
}

// Incarnation distinguishes the lives of a host: a restarted host has a new one.
func (h HostInfo) Incarnation() string { return h.Started.UTC().Format(time.RFC3339Nano) }

// HostMode says whether a host accepts a CreateRequest.
type HostMode string

// A host in ModeOpen takes procs. In the other modes it refuses them with a reason.
const (
	ModeOpen     HostMode = "open"
	ModeCordoned HostMode = "cordoned" // until reopened
	ModeDraining HostMode = "draining" // until all procs have ended
	ModeLeaving  HostMode = "leaving"  // for good

	// ModeUnconfirmed is the mode of a host whose agent did not answer after the search. No host has
	// it.
	ModeUnconfirmed HostMode = "unconfirmed"
)

// StopSummary is the result of stopping many ranks.
type StopSummary struct {
	Requested int     `cbor:"1,keyasint" json:"requested"`           // ranks alive at the request
	Ended     int     `cbor:"2,keyasint" json:"ended"`               // ranks that have ended
	Failed    int     `cbor:"3,keyasint" json:"failed"`              // ended ranks that were killed or failed
	Remaining []State `cbor:"4,keyasint,omitempty" json:"remaining"` // ranks or remnants still present, at most 256

	// Moved counts the drained ranks that moved to other hosts. Requested does not include them.
	Moved int `cbor:"5,keyasint,omitempty" json:"moved,omitempty"`
}

// maxRemaining bounds the states in a StopSummary. Requested and Ended give the full counts.
const maxRemaining = 256

// Merge adds up two summaries.
func (s StopSummary) Merge(o StopSummary) StopSummary {
	left := slices.Concat(s.Remaining, o.Remaining)
	return StopSummary{
		s.Requested + o.Requested, s.Ended + o.Ended, s.Failed + o.Failed, left[:min(len(left), maxRemaining)],
		s.Moved + o.Moved,
	}
}

// Alive returns the states of the ranks that have not ended. It reuses the slice.
func Alive(states []State) []State {
	return slices.DeleteFunc(states, func(s State) bool { return s.Status.Phase.Terminal() })
}

// SummarizeStop summarizes the states of ranks after a stop request.
func SummarizeStop(asked []State) StopSummary {
	s := StopSummary{Requested: len(asked)}
	for _, st := range asked {
		if !st.Status.Phase.Terminal() {
			if len(s.Remaining) < maxRemaining {
				s.Remaining = append(s.Remaining, st)
			}
			continue
		}
		if st.Status.Phase == Failed || st.Proc != nil && st.Proc.GraceExpired {
			s.Failed++
		}
		if st.Proc != nil && st.Proc.Survivors && len(s.Remaining) < maxRemaining {
			s.Remaining = append(s.Remaining, st)
		}
		s.Ended++
	}
	return s
}

// Err returns a *NotEndedError if some rank has not ended, otherwise nil.
func (s StopSummary) Err() error {
	if len(s.Remaining) == 0 {
		return nil
	}
	return &NotEndedError{Requested: s.Requested, Ended: s.Ended, Remaining: s.Remaining}
}

// NotEndedError lists ranks that could not be stopped.
type NotEndedError struct {
	Requested, Ended int     // ranks
	Remaining        []State // ranks or remnants still present, at most 256
}

// maxListed bounds the ranks in an error text.
const maxListed = 8

func (e *NotEndedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d have not ended", e.Requested-e.Ended, e.Requested)
	for i, st := range e.Remaining {
		if i == maxListed {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Remaining)-maxListed)
			break
		}
		fmt.Fprintf(&b, "\n  rank %d of %s: %s", st.Rank, st.ID, st.Status)
		p := st.Proc
		if p == nil {
			continue
		}
		if p.PID != 0 {
			fmt.Fprintf(&b, ", pid %d", p.PID)
		}
		if p.Survivors {
			b.WriteString(": processes that it started survive SIGKILL")
		} else if p.GraceExpired {
			b.WriteString(": it survives SIGKILL")
		}
	}
	return b.String()
}
