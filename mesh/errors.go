package mesh

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// NotFoundError reports that no live resource has a name.
type NotFoundError struct {
	What, Name string
	Known      []string // names of live resources
	Ended      string   // how a former holder of the name ended; "": unknown
	Where      string   // the first rank without it, or the region; "": the whole mesh or bus
}

func (e *NotFoundError) Error() string {
	if e.Ended != "" && e.Where != "" {
		return fmt.Sprintf("%s %q has ended on %s: %s", e.What, e.Name, e.Where, e.Ended)
	}
	if e.Ended != "" {
		return fmt.Sprintf("%s %q has ended: %s", e.What, e.Name, e.Ended)
	}
	if e.Where != "" {
		return fmt.Sprintf("%s %q does not exist on %s", e.What, e.Name, e.Where)
	}
	if len(e.Known) == 0 {
		return fmt.Sprintf("%s %q does not exist; there is none", e.What, e.Name)
	}
	return fmt.Sprintf("%s %q does not exist; there is %s", e.What, e.Name, joinSome(e.Known, maxListed))
}

// joinSome joins the first texts, and counts the others.
func joinSome(all []string, most int) string {
	if more := len(all) - most; more > 0 {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

// AmbiguousError reports that a label matches several live resources.
type AmbiguousError struct {
	What, Name string
	Candidates []string // full names
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s %q is ambiguous: want one of %s", e.What, e.Name, joinSome(e.Candidates, maxListed))
}

var (
	errNoMesh  = errors.New("the zero mesh: want the result of a Spawn or Lookup")
	errNoHosts = errors.New("the zero host mesh: want the result of Hosts, Attach or Allocate")
	errUnbound = errors.New("a decoded mesh is bound to no Net: bind it with Via")
)

// RefusedError refuses an impossible spawn. Nothing was started.
type RefusedError struct {
	What, Name string // procs, actors or service, and their name
	Err        error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("spawn %s %q: %v", e.What, e.Name, e.Err) }

func (e *RefusedError) Unwrap() error { return e.Err }

// RankStatus is the status of a rank.
type RankStatus struct {
	Rank   int         // of the whole mesh, not of a region
	Point  shape.Point // in the whole mesh
	Host   string
	Status agent.Status
	// Agent is the agent of the rank's proc.
	Agent subjects.ActorID
	// Process has exit code, signal and last words. It is set in the SpawnError of procs, for ended
	// processes whose hosts answer.
	Process *agent.ProcInfo
}

// SpawnError lists the ranks of a mesh that did not start, each with its host, reason and process.
type SpawnError struct {
	Mesh   string
	Ranks  int
	Failed []RankStatus // in rank order
}

// maxListed bounds the ranks or names in an error text.
const maxListed = 8

func (e *SpawnError) Error() string {
	return listRanks("spawn", e.Mesh, e.Ranks, e.Failed, "did not start")
}

// StopError lists the ranks of a mesh that had not ended by the deadline.
type StopError struct {
	Mesh      string
	Ranks     int
	Remaining []RankStatus
}

func (e *StopError) Error() string {
	return listRanks("stop", e.Mesh, e.Ranks, e.Remaining, "did not stop")
}

func listRanks(verb, mesh string, of int, ranks []RankStatus, what string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %d of %d ranks %s", verb, mesh, len(ranks), of, what)
	for i, r := range ranks {
		if i == maxListed {
			fmt.Fprintf(&b, "\n  and %d more", len(ranks)-maxListed)
			break
		}
		fmt.Fprintf(&b, "\n  rank %d (%s) on %s: %s", r.Rank, r.Point, r.Host, r.Status)
	}
	return b.String()
}

func isAlive(s agent.Status) bool { return !s.Phase.Terminal() }

// rankStatuses returns the ranks of an overlay of a region that satisfy keep. Ranks outside the
// overlay are NotExist.
func rankStatuses(o agent.Overlay, m agent.Mesh, r shape.Region, keep func(agent.Status) bool) []RankStatus {
	all := make([]agent.Status, r.NumRanks())
	o.Each(len(all), func(rank int, s agent.Status) { all[rank] = s })
	var out []RankStatus
	for view, rank := range r.Ranks() {
		if !keep(all[view]) {
			continue
		}
		rs := RankStatus{Rank: rank, Status: all[view], Agent: m.ProcID(rank, 0).Actor(agent.Name)}
		if p, err := m.Extent.Point(rank); err == nil {
			rs.Point = p
		}
		if m.PerHost > 0 && rank/m.PerHost < len(m.Hosts) {
			rs.Host = m.Hosts[rank/m.PerHost].String()
		}
		out = append(out, rs)
	}
	return out
}
