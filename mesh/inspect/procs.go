package inspect

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// Proc is a rank of a proc mesh. Its JSON names are stable.
type Proc struct {
	Mesh     string     `json:"mesh"`
	Rank     int        `json:"rank"`
	Point    string     `json:"point"`
	Host     string     `json:"host"`
	PID      int        `json:"pid,omitempty"`
	Status   string     `json:"status"`
	Reason   string     `json:"reason,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	ExitCode *int       `json:"exit_code,omitempty"`
	Signal   int        `json:"signal,omitempty"`
	Adopted  bool       `json:"adopted,omitempty"` // launched by an earlier hostd

	// used by its process, without descendants; 0: unknown
	CPUTime time.Duration `json:"cpu_time,omitempty"`
	Memory  int64         `json:"memory,omitempty"` // resident bytes

	Extent shape.Extent `json:"-"` // of the mesh
}

// Procs returns the wanted ranks in order. For a moved rank it ignores the earlier generation
// on the former host.
func Procs(m mesh.MeshState, want func(rank int) bool) []Proc {
	var out []Proc
	desc := m.Procs.Describe()
	for rank, s := range newestStates(m.States) {
		if !want(rank) {
			continue
		}
		r := NewProc(s)
		r.Point = Point(desc.Extent, s.Rank)
		r.Extent = desc.Extent
		if h, err := m.Procs.Host(s.Rank); err == nil {
			r.Host = h.String()
		}
		if s.Proc != nil {
			r.Host = cmp.Or(s.Proc.Host, r.Host)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(x, y Proc) int { return cmp.Compare(x.Rank, y.Rank) })
	return out
}

// newestStates returns the newest generation of each rank. Two hosts know a moved rank.
func newestStates(states []agent.State) map[int]agent.State {
	newest := map[int]agent.State{}
	for _, s := range states {
		if had, is := newest[s.Rank]; !is || s.Gen >= had.Gen {
			newest[s.Rank] = s
		}
	}
	return newest
}

// NewProc converts the state of a rank.
func NewProc(s agent.State) Proc {
	r := Proc{Mesh: s.ID, Rank: s.Rank, Status: s.Status.Phase.String(), Reason: s.Status.Reason}
	if p := s.Proc; p != nil {
		r.PID = p.PID
		r.ExitCode = p.ExitCode
		r.Signal = p.Signal
		r.Adopted = p.Adopted
		r.CPUTime = p.CPUTime
		r.Memory = p.Memory
		if !p.Started.IsZero() {
			r.Started = &p.Started
		}
	}
	return r
}

// Note returns remarks on a rank besides its status.
func (r Proc) Note() string {
	if r.Reason == "" && r.Adopted && !Ended(r.Status) {
		return "adopted: an earlier hostd launched it"
	}
	return r.Reason
}

// Ended reports whether a status is that of an ended rank or actor.
func Ended(status string) bool {
	return status == agent.Stopped.String() || status == agent.Failed.String()
}

// ExitText formats the exit of a rank's process.
func (r Proc) ExitText() string {
	if r.Signal != 0 {
		return "signal " + strconv.Itoa(r.Signal)
	}
	if r.ExitCode != nil {
		return strconv.Itoa(*r.ExitCode)
	}
	return ""
}
