package hostexec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

// result is the result of one command.
type result struct {
	task
	done agent.ExecResult
	code int    // for the exit code
	err  string // why it did not run; "" = it ran
}

// Group is a set of targets with equal results. Its JSON names are stable.
type Group struct {
	Region string   `json:"region,omitempty"`
	Ranks  []int    `json:"ranks,omitempty"`
	Hosts  []string `json:"hosts"`
	agent.ExecResult
	Error string `json:"error,omitempty"`

	code int
}

// groupExecResults groups equal results, the largest group first.
func groupExecResults(base shape.Extent, results []result) []Group {
	type same struct {
		done agent.ExecResult
		err  string
		code int
	}
	rank := func(r result) int { return r.rank }
	outcome := func(r result) same { return same{r.done, r.err, r.code} }
	var groups []Group
	for _, equal := range inspect.GroupRanks(base, results, rank, outcome) {
		is := equal.Outcome
		g := Group{
			Region: equal.Region, Ranks: equal.Ranks, Hosts: []string{},
			ExecResult: is.done, Error: is.err, code: is.code,
		}
		for _, r := range equal.Items {
			if label := r.host.Label(); label != "" && !slices.Contains(g.Hosts, label) {
				g.Hosts = append(g.Hosts, label)
			}
		}
		groups = append(groups, g)
	}
	slices.SortStableFunc(groups, func(x, y Group) int { return cmp.Compare(y.size(), x.size()) })
	return groups
}

func (g Group) size() int { return max(len(g.Ranks), len(g.Hosts)) }

// describeTargets names the targets: ranks by region, hosts by label.
func (g Group) describeTargets() string {
	if len(g.Ranks) > 0 {
		return "[" + g.Region + "]"
	}
	return text.Names(g.Hosts)
}

// describeResult formats the exit, with the last output line if that is all.
func (g Group) describeResult(last bool) string {
	var result string
	switch {
	case g.Error != "":
		return g.Error
	case g.TimedOut:
		result = "killed: it took longer than --timeout"
	case g.Signal != 0:
		result = fmt.Sprintf("killed by signal %d (%v)", g.Signal, syscall.Signal(g.Signal))
	default:
		result = fmt.Sprintf("exited with code %d", g.ExitCode)
	}
	if said := strings.TrimSpace(g.Stderr); last && said != "" {
		lines := strings.Split(said, "\n")
		result += ": " + text.Shorten(lines[len(lines)-1], 120)
	}
	if g.DroppedBytes > 0 && !last {
		result += fmt.Sprintf("; %d bytes before this are left out", g.DroppedBytes)
	}
	return result
}
