package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// State is everything an agent says about one rank of a resource.
type State struct {
	ID         string     `cbor:"1,keyasint" json:"id"`
	Rank       int        `cbor:"2,keyasint" json:"rank"`
	Status     Status     `cbor:"3,keyasint" json:"status"`
	Generation uint64     `cbor:"4,keyasint" json:"generation"` // counts its changes
	Proc       *ProcState `cbor:"5,keyasint,omitempty" json:"proc,omitempty"`
	Actor      *ActorInfo `cbor:"6,keyasint,omitempty" json:"actor,omitempty"`
	Mesh       *Mesh      `cbor:"7,keyasint,omitempty" json:"mesh,omitempty"` // of a host agent, on the first of its ranks: the mesh
	Gen        int        `cbor:"8,keyasint,omitempty" json:"gen,omitempty"`  // which of those that had the rank, one after another

	// Lease is how long its ranks have until they are stopped, when nobody renews their lease: of a host agent, beside
	// the mesh. 0: for ever.
	Lease time.Duration `cbor:"9,keyasint,omitempty" json:"lease,omitempty"`
	// Claim is that of who owns it: of a host agent, beside the mesh.
	Claim *Claim `cbor:"10,keyasint,omitempty" json:"claim,omitempty"`
}

// ProcState is what a host agent knows about an OS process.
type ProcState struct {
	PID        int       `cbor:"1,keyasint,omitempty" json:"pid,omitempty"`
	Started    time.Time `cbor:"2,keyasint" json:"started"`
	ExitCode   *int      `cbor:"3,keyasint,omitempty" json:"exit_code,omitempty"`
	Signal     int       `cbor:"4,keyasint,omitempty" json:"signal,omitempty"`
	StderrTail []string  `cbor:"5,keyasint,omitempty" json:"stderr_tail,omitempty"`
	Host       string    `cbor:"6,keyasint,omitempty" json:"host,omitempty"`
	Life       Life      `cbor:"7,keyasint" json:"life"`
	Core       bool      `cbor:"8,keyasint,omitempty" json:"core,omitempty"` // it left a core dump
	OOM        bool      `cbor:"9,keyasint,omitempty" json:"oom,omitempty"`  // the kernel killed it for want of memory
	Program    string    `cbor:"10,keyasint,omitempty" json:"program,omitempty"`
	Unenforced []string  `cbor:"11,keyasint,omitempty" json:"unenforced,omitempty"` // limits that do not hold here, and why
	Adopted    bool      `cbor:"12,keyasint,omitempty" json:"adopted,omitempty"`    // an earlier host on the machine launched it
	Overdue    bool      `cbor:"13,keyasint,omitempty" json:"overdue,omitempty"`    // it did not stop in its grace: it was sent SIGKILL
	Survivors  bool      `cbor:"14,keyasint,omitempty" json:"survivors,omitempty"`  // it has ended, and something that it had started survives SIGKILL
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

	// Schemas are JSON Schemas of what endpoints take and answer, by the endpoint's name; only for who asks for them.
	Schemas map[string]Schema `cbor:"8,keyasint,omitempty" json:"schemas,omitempty"`
}

// Schema is what an endpoint takes and answers, each as the text of a JSON Schema.
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
	Procs   int             `cbor:"6,keyasint" json:"procs"` // alive
	Started time.Time       `cbor:"7,keyasint" json:"started"`
	CPUs    int             `cbor:"8,keyasint" json:"cpus"`

	Labels map[string]string `cbor:"9,keyasint,omitempty" json:"labels,omitempty"`
	Mode   HostMode          `cbor:"10,keyasint" json:"mode"`
	Why    string            `cbor:"11,keyasint,omitempty" json:"why,omitempty"`   // it takes no procs
	Local  bool              `cbor:"12,keyasint,omitempty" json:"local,omitempty"` // procs run in its own process
	Owner  string            `cbor:"14,keyasint,omitempty" json:"owner,omitempty"` // the process that has taken it
	Trees  string            `cbor:"13,keyasint,omitempty" json:"trees,omitempty"` // how it ends what procs have started: cgroup, subreaper or group
	Epoch  uint64            `cbor:"15,keyasint,omitempty" json:"epoch,omitempty"` // of the latest system controller it has heard of
	Now    time.Time         `cbor:"16,keyasint,omitzero" json:"now,omitzero"`     // by the host's clock, when it said all this

	// Changes grows, in one life of the host, whenever what Get answers does; 0: nothing was ever there.
	Changes uint64 `cbor:"17,keyasint,omitempty" json:"changes,omitempty"`
}

// Life tells one life of a host from the others: a host that is found again after its death has another.
func (h HostInfo) Life() string { return h.Started.UTC().Format(time.RFC3339Nano) }

// HostMode says what a host does with a Creation.
type HostMode string

// A host that is Open takes procs; the others refuse them and say why.
const (
	Open     HostMode = "open"
	Cordoned HostMode = "cordoned" // until it is told otherwise
	Drains   HostMode = "draining" // until all procs have ended
	Leaving  HostMode = "leaving"  // for good
)

// Summary says what came of stopping many ranks.
type Summary struct {
	Asked  int     `cbor:"1,keyasint" json:"asked"`          // ranks that had not ended before
	Ended  int     `cbor:"2,keyasint" json:"ended"`          // of these, those that have
	Failed int     `cbor:"3,keyasint" json:"failed"`         // of those, which had to be killed or went wrong on the way
	Left   []State `cbor:"4,keyasint,omitempty" json:"left"` // what is still there, or something of it is, at most 256

	// Moved is how many ranks their owners have elsewhere now: of a drain. They are not among those Asked.
	Moved int `cbor:"5,keyasint,omitempty" json:"moved,omitempty"`
}

// maxLeft bounds the states in a Summary: Asked and Ended tell how many there are.
const maxLeft = 256

// Merge adds up two summaries.
func (s Summary) Merge(o Summary) Summary {
	left := slices.Concat(s.Left, o.Left)
	return Summary{s.Asked + o.Asked, s.Ended + o.Ended, s.Failed + o.Failed, left[:min(len(left), maxLeft)], s.Moved + o.Moved}
}

// Summarize sums up how ranks are that were asked to stop.
func Summarize(asked []State) Summary {
	s := Summary{Asked: len(asked)}
	for _, st := range asked {
		switch {
		case !st.Status.Phase.Terminal():
			if len(s.Left) < maxLeft {
				s.Left = append(s.Left, st)
			}
			continue
		case st.Status.Phase == Failed, st.Proc != nil && st.Proc.Overdue:
			s.Failed++
		}
		if st.Proc != nil && st.Proc.Survivors && len(s.Left) < maxLeft {
			s.Left = append(s.Left, st)
		}
		s.Ended++
	}
	return s
}

// Err is what could not be stopped, a *LeftError; nil when all could.
func (s Summary) Err() error {
	if len(s.Left) == 0 {
		return nil
	}
	return &LeftError{Asked: s.Asked, Ended: s.Ended, Left: s.Left}
}

// LeftError says what could not be stopped.
type LeftError struct {
	Asked, Ended int     // ranks
	Left         []State // what is still there, or something of it is, at most 256
}

// maxListed bounds how many ranks an error spells out.
const maxListed = 8

func (e *LeftError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d have not ended", e.Asked-e.Ended, e.Asked)
	for i, st := range e.Left {
		if i == maxListed {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Left)-maxListed)
			break
		}
		fmt.Fprintf(&b, "\n  rank %d of %s: %s", st.Rank, st.ID, st.Status)
		if p := st.Proc; p != nil && p.PID != 0 {
			fmt.Fprintf(&b, ", pid %d", p.PID)
		}
		switch p := st.Proc; {
		case p != nil && p.Survivors:
			b.WriteString(": what it had started survives SIGKILL")
		case p != nil && p.Overdue:
			b.WriteString(": it survives SIGKILL")
		}
	}
	return b.String()
}
