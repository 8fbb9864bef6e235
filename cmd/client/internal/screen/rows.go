package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// row is one line of the tree.
type row struct {
	key    string
	parent string
	depth  int
	name   string
	leaf   bool
	isOpen bool
	status string
	host   *inspect.HostCounters // of a host
	proc   *procRow              // of a rank, or of the rank of an actor
	actor  *inspect.ActorCounters
	mesh   string // of a mesh, a rank or an actor

	inspect.Counters
	latency  time.Duration
	restarts int
	ranks    int    // of a group
	worst    string // status of a rank in trouble
	troubled int    // ranks of that status
	current  string
	unasked  bool // messages are unknown
}

type procRow inspect.ProcCounters

func (p procRow) id() rankID { return rankID{p.Mesh, p.Rank} }

// silent is the status of a running rank that does not answer.
const silent = "silent"

// status returns the status of a rank as the screen shows it.
func (p procRow) status() string {
	if p.Silent && p.Status == agent.Running.String() {
		return silent
	}
	return p.Status
}

// sortKey orders rows.
type sortKey struct {
	column  string // header of its column
	flag    string // of --sort; "": it has none
	compare func(a, b row) int
	asked   bool // its values come from procs, which are asked only in part if there are many
}

// sortKeys returns the orders of rows, in the order of their columns. Equal rows are ordered by
// name.
func sortKeys() []sortKey {
	largest := func(value func(row) float64) func(a, b row) int {
		return func(a, b row) int { // a silent host has no values, and is first
			return cmp.Or(cmp.Compare(hostTrouble(b), hostTrouble(a)), cmp.Compare(value(b), value(a)))
		}
	}
	return []sortKey{
		{"NAME", "name", func(a, b row) int { return 0 }, false},
		{"STATUS", "", func(a, b row) int { return cmp.Compare(severity(b.status), severity(a.status)) }, false},
		{"MSG/S", "rate", largest(func(r row) float64 { return r.Rate }), true},
		{"QUEUED", "queued", largest(func(r row) float64 { return float64(r.Queued) }), true},
		{"LATENCY", "", largest(func(r row) float64 { return float64(r.latency) }), true},
		{"CPU", "cpu", largest(func(r row) float64 { return r.CPU }), false},
		{"MEM", "mem", largest(func(r row) float64 { return float64(r.Memory) }), false},
		{"RST", "", largest(func(r row) float64 { return float64(r.restarts) }), false},
		{"HANDLED", "handled", largest(func(r row) float64 { return float64(r.Handled) }), true},
	}
}

// hostTrouble is 1 for a host that does not answer.
func hostTrouble(r row) int {
	if r.host != nil && r.host.State != agent.HostAlive {
		return 1
	}
	return 0
}

// severity orders statuses: trouble is larger.
func severity(status string) int {
	switch status {
	case agent.Failed.String(), agent.HostDead:
		return 4
	case silent, agent.HostSuspect:
		return 3
	case agent.Unknown.String():
		return 2
	case agent.Initializing.String(), agent.ShuttingDown.String():
		return 1
	}
	return 0
}

// sorting returns the order in effect. Values of procs that are not asked give no order.
func (s state) sorting() sortKey {
	k := sortKeys()[s.sort]
	if k.asked && s.sample.Partial {
		return sortKeys()[0]
	}
	return k
}

// group is a root of the tree.
type group struct {
	row
	procs []row
}

// arrange computes the rows of the tree.
func (s state) arrange() state {
	s.counts = map[string]int{}
	for i := range s.sample.Procs {
		s.counts[(*procRow)(&s.sample.Procs[i]).status()]++
	}
	s.rows = s.tree(false)
	return s
}

// tree returns the rows of the tree; all: as if every group were open.
func (s state) tree(all bool) []row {
	groups := s.groups()
	order := s.sorting().compare
	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Or(order(a.row, b.row), cmp.Compare(a.name, b.name))
	})
	var rows []row
	for _, g := range groups {
		if s.filter != allRanks {
			g.procs = slices.DeleteFunc(g.procs, func(r row) bool { return !s.filter.keeps(r) })
			if len(g.procs) == 0 && !(s.filter == troubledRanks && severity(g.status) > 0) {
				continue
			}
		}
		g.isOpen = s.isOpen(g.key, s.autoOpen || s.filter != allRanks)
		g.leaf = len(g.procs) == 0
		rows = append(rows, g.row)
		if !g.isOpen && !all {
			continue
		}
		slices.SortStableFunc(g.procs, func(a, b row) int {
			return cmp.Or(order(a, b), cmp.Compare(a.proc.Mesh, b.proc.Mesh), cmp.Compare(a.proc.Rank, b.proc.Rank))
		})
		for _, r := range g.procs {
			r.isOpen = s.isOpen(r.key, false)
			rows = append(rows, r)
			if r.isOpen {
				rows = append(rows, actorRows(r, order)...)
			}
		}
	}
	return rows
}

// keeps reports whether a filter keeps a rank.
func (f filter) keeps(r row) bool {
	if f == busyRanks {
		return r.Rate > 0 || r.Queued > 0 || r.current != ""
	}
	return severity(r.status) > 0
}

func (s state) isOpen(key string, usual bool) bool {
	if is, said := s.open[key]; said {
		return is
	}
	return usual
}

// groups returns the roots of the tree with their ranks.
func (s state) groups() []group {
	var groups []group
	at := map[string]int{}
	root := func(key string, make func() row) *group {
		i, is := at[key]
		if !is {
			i = len(groups)
			at[key] = i
			groups = append(groups, group{row: make()})
		}
		return &groups[i]
	}
	if s.group == byHost {
		for i := range s.sample.Hosts {
			h := &s.sample.Hosts[i]
			root(h.ID, func() row { return s.hostRow(h) })
		}
	}
	for i := range s.sample.Procs {
		p := (*procRow)(&s.sample.Procs[i])
		id := p.Host
		if s.group == byMesh {
			id = p.Mesh
		}
		g := root(id, func() row {
			if s.group == byMesh {
				return row{key: "m/" + id, name: "mesh " + text.Label(id), mesh: id, status: agent.Running.String()}
			}
			return row{key: "h/" + id, name: "host " + text.HostLabel(id), status: agent.Unknown.String()}
		})
		r := s.rankRow(p, g.key)
		g.procs = append(g.procs, r)
		g.add(r, s.group)
	}
	return groups
}

func (s state) hostRow(h *inspect.HostCounters) row {
	r := row{
		key: "h/" + h.ID, name: "host " + h.Host, status: h.State, host: h, Counters: h.Counters,
		unasked: s.sample.Partial && h.Handled == 0 && h.Queued == 0,
	}
	if h.State != agent.HostAlive && h.Silence > 0 {
		r.current = "last heard " + text.Age(h.Silence) + " ago"
	}
	return r
}

// add counts a rank. The counters of a host are in the sample already.
func (g *group) add(r row, by grouping) {
	g.ranks++
	g.restarts += r.restarts
	g.latency = max(g.latency, r.latency)
	if severity(r.status) > severity(g.worst) {
		g.worst, g.troubled = r.status, 0
	}
	if g.worst != "" && r.status == g.worst {
		g.troubled++
	}
	if by == byHost {
		return
	}
	g.unasked = g.unasked || r.proc.Unasked
	g.Queued += r.Queued
	g.Handled += r.Handled
	g.Rate += r.Rate
	g.CPU += r.CPU
	g.Memory += r.Memory
	g.status = cmp.Or(g.worst, g.status)
}

// size says how many ranks a group has, and how many have the worst status.
func (r row) size() string {
	if r.ranks == 0 {
		return ""
	}
	if r.troubled > 0 {
		return fmt.Sprintf(" (%d, %d %s)", r.ranks, r.troubled, r.worst)
	}
	return fmt.Sprintf(" (%d)", r.ranks)
}

func (s state) rankRow(p *procRow, parent string) row {
	r := row{
		key: "r/" + p.Mesh + "/" + strconv.Itoa(p.Rank), parent: parent, depth: 1, proc: p, mesh: p.Mesh,
		name: text.Label(p.Mesh) + "[" + p.Point + "]", status: p.status(), Counters: p.Counters,
		latency: p.Latency, restarts: p.Gen, current: p.Busy,
		unasked: p.Unasked || p.Silent || inspect.Ended(p.Status),
		leaf:    len(p.ActorCounters) == 0 && !p.Unasked,
	}
	if s.group == byMesh {
		r.name = p.Point
		if r.name == "" {
			r.name = "the only rank"
		}
		r.name += " on " + text.HostLabel(p.Host)
	}
	return r
}

// actorRows returns the actors of a rank.
func actorRows(of row, order func(a, b row) int) []row {
	var rows []row
	for i := range of.proc.ActorCounters {
		a := &of.proc.ActorCounters[i]
		rows = append(rows, row{
			key: of.key + "/" + a.Actor.Actor, parent: of.key, depth: 2, leaf: true,
			actor: a, proc: of.proc, mesh: of.mesh,
			name: text.Label(a.Actor.Actor), status: a.Status, latency: a.Latency, current: a.Current,
			Counters: inspect.Counters{Queued: a.Queued, Handled: a.Handled, Rate: a.Rate},
		})
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(order(a, b), strings.Compare(a.name, b.name))
	})
	return rows
}
