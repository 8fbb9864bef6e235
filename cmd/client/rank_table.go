package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// maxEqualRows is the number of rows for equal ranks of a mesh, and maxEqualReasons that for ranks
// that do not run, for one reason. More ranks share one row.
const (
	maxEqualRows    = 16
	maxEqualReasons = 2
	maxRegion       = 60 // of ranks in a cell, which makes its column as wide
)

// rankRow is a row for one rank, or for several with the same end.
type rankRow struct {
	inspect.Proc // of several: the first one, with the sums of what they use
	ranks        int
	region       string
	hosts        int
}

// showRanks prints ranks. A table folds those of a mesh with equal status, exit and reason.
func showRanks(out *output.Printer, ranks []inspect.Proc) error {
	if out.Format != output.Table {
		return output.Records(out, ranks, nil, nil)
	}
	columns := []string{
		"mesh", "rank", "point", "host", "pid", "age", "cpu-time", "mem", "status", "exit", "reason",
	}
	return output.Records(out, foldRanks(ranks), columns, func(r rankRow) []string {
		age, cpu := "-", "-"
		if r.Started != nil && !inspect.Ended(r.Status) {
			age = text.Age(time.Since(*r.Started))
		}
		if r.Memory > 0 {
			cpu = text.Age(r.CPUTime)
		}
		exit := text.OrDash(r.ExitText())
		if strings.Contains(r.Reason, "code "+exit) || strings.Contains(r.Reason, "by "+exit) {
			exit = "-" // the reason says it, as in "killed by signal 9"
		}
		rank, host := strconv.Itoa(r.Rank), text.HostLabel(r.Host)
		if r.ranks > 1 {
			rank = fmt.Sprintf("%d×", r.ranks)
		}
		if r.hosts > 1 {
			host = text.Pluralize(r.hosts, "host")
		}
		return []string{
			r.Mesh, rank, text.Shorten(r.region, maxRegion), host, text.OrDash(formatPID(r.PID)), age, cpu,
			text.Size(r.Memory),
			out.PaintStatus(r.Status), exit, text.Reason(r.Note()),
		}
	})
}

// foldRanks returns the rows of ranks, which are in the order of meshes and ranks.
func foldRanks(ranks []inspect.Proc) (rows []rankRow) {
	type outcome struct{ status, exit, note string }
	for len(ranks) > 0 {
		other := slices.IndexFunc(ranks, func(r inspect.Proc) bool { return r.Mesh != ranks[0].Mesh })
		mesh := ranks
		if other > 0 {
			mesh = ranks[:other]
		}
		ranks = ranks[len(mesh):]
		first := len(rows)
		for _, g := range inspect.GroupRanks(mesh[0].Extent, mesh, func(r inspect.Proc) int { return r.Rank },
			func(r inspect.Proc) outcome { return outcome{r.Status, r.ExitText(), r.Note()} }) {
			explained := g.Outcome.note != "" && g.Outcome.status != agent.Running.String()
			if len(g.Items) > maxEqualRows || explained && len(g.Items) > maxEqualReasons {
				rows = append(rows, foldEqual(g.Items, g.Region))
				continue
			}
			for _, r := range g.Items {
				rows = append(rows, rankRow{Proc: r, region: r.Point})
			}
		}
		slices.SortFunc(rows[first:], func(a, b rankRow) int { return cmp.Compare(a.Rank, b.Rank) })
	}
	return rows
}

func foldEqual(ranks []inspect.Proc, region string) rankRow {
	row := rankRow{Proc: ranks[0], ranks: len(ranks), region: region}
	row.PID = 0
	row.CPUTime = 0
	row.Memory = 0
	hosts := map[string]bool{}
	for _, r := range ranks {
		hosts[r.Host] = true
		row.CPUTime += r.CPUTime
		row.Memory += r.Memory
		if r.Started != nil && r.Started.Before(*cmp.Or(row.Started, r.Started)) {
			row.Started = r.Started
		}
	}
	row.hosts = len(hosts)
	return row
}

func formatPID(pid int) string {
	if pid == 0 {
		return ""
	}
	return strconv.Itoa(pid)
}
