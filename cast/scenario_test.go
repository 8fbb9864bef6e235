package cast

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

var traces = flag.Bool("cast.traces", false, "write the traces of testdata/*.txt anew")

// Each file of testdata is the replies of one cast, through the production tree and folds. A line
// is an event. The indented lines below it are the packets sent then, and the state of the caller.
// The first requested rank of a process names it.
func TestRouter_scenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			require.NoError(t, err)
			got := playReplies(t, string(script))
			if *traces {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(script), got)
		})
	}
}

func playReplies(t *testing.T, script string) string {
	s := &scenario{T: t, tree: tree{placement: Placement{Mesh: testMesh, PerHost: 1}, arity: 2}, mode: modeFold}
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		s.out.WriteString(line)
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			s.do(f[0], f[1:])
		}
	}
	return s.out.String()
}

// scenario is a script in play.
type scenario struct {
	*testing.T
	tree   tree
	mode   mode
	flight *flight // once somebody is asked
	home   string  // what was said of it last
	out    strings.Builder
}

// do is one line of a script.
func (s *scenario) do(verb string, args []string) {
	s.Helper()
	f := s.flight
	if f == nil {
		s.set(verb, args)
		return
	}
	for _, view := range s.views(args) {
		s.each(verb, view)
	}
	switch verb {
	case "home-asks-around":
		f.home.rerouted = true
		f.asksAround(silentNodes(f.tree, f.tree.roots(f.mode), f.home.isPending))
	case "home-gives-up":
		f.home.expire(errors.New("silent"))
	}
	f.run()
	if now := s.known(); now != s.home {
		s.home = now
		fmt.Fprintf(&s.out, "\thome: %s\n", now)
	}
}

// set sets the mesh, the addressed ranks and the verb.
func (s *scenario) set(verb string, args []string) {
	var err error
	switch verb {
	case "mesh": // its extent, ranks on a host and in a process
		s.tree.placement.Extent, err = shape.ParseExtent(args[0])
		s.tree.region, s.tree.placement.PerHost, s.tree.placement.PerProcess = s.tree.placement.Extent.Region(),
			integer(args[1]), integer(args[2])
	case "region":
		s.tree.region, err = shape.Select(s.tree.placement.Extent, args[0])
	case "arity":
		s.tree.arity = integer(args[0])
	case "skips":
		s.tree.skip = ranksOf(s.views(args))
	case "apex":
		s.tree.singleRoot = true
	case "asks":
		s.mode = map[string]mode{"fold": modeFold, "gather": modeCollect}[args[0]]
		s.flight = newFlight(s.tree, s.mode, 0)
		s.flight.todo, s.flight.inTurn, s.flight.sends = nil, true, s.sends
		s.flight.stopped = map[subjects.ProcID][]func(){}
		s.home = s.known()
	default:
		require.Fail(s, "unknown verb", verb)
	}
	require.NoError(s, err)
}

func integer(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// views are ranks of the region: one by one, or from-to.
func (s *scenario) views(args []string) (all []int) {
	for _, arg := range args {
		from, to, some := strings.Cut(arg, "-")
		if !some {
			to = from
		}
		for view := integer(from); view <= integer(to); view++ {
			all = append(all, view)
		}
	}
	return all
}

// each applies an event to a rank or, if all its ranks share it, to its process.
func (s *scenario) each(verb string, view int) {
	f := s.flight
	id := f.tree.aggregatorAt(view)
	p := f.procs[id]
	because := errors.New
	switch verb {
	case "arrives":
		f.at(id, func() {
			p.start(newJob(f.tree, f.mode, view))
			for dead := range p.seen {
				p.failProc(dead, because("dead"))
			}
			f.check(id)
		})
	case "answers":
		f.at(id, func() { p.state.answer(view, actor.Answer{Value: name(view)}); f.check(id) })
	case "refuses":
		f.at(id, func() { p.state.answer(view, actor.Answer{Err: errors.New("refused")}); f.check(id) })
	case "dies": // nobody has heard of it yet
		f.dead[id] = true
	case "all-hear-of":
		for _, v := range f.procs[id].views {
			f.home.fail(shape.Interval(v, 1), failed, errors.New("dead"))
		}
		for _, other := range f.ids() {
			o := f.procs[other]
			if o.seen[id] = true; other == id || f.dead[other] || o.state == nil {
				continue
			}
			if o.done && o.sentTo == id {
				f.pass(other)
			} else if !o.done {
				o.failProc(id, because("dead"))
				f.check(other)
			}
		}
	case "stops":
		f.stopped[id] = nil
	case "wakes":
		later := f.stopped[id]
		delete(f.stopped, id)
		f.todo = append(f.todo, later...)
	case "asks-around":
		require.True(s, p.canReroute())
		p.rerouted, p.state.rerouted = true, true
		f.asksAround(silentNodes(f.tree, f.tree.nodes(p.job.hostEnd, p.job.hi), p.state.isPending))
	case "gives-up":
		p.state.expire(noAnswer)
		f.check(id)
	default:
		require.Fail(s, "unknown verb", verb)
	}
	f.run()
}

// called is the name of a process.
func (s *scenario) called(id subjects.ProcID) string {
	if !id.IsValid() {
		return "home"
	}
	return strconv.Itoa(s.flight.procs[id].views[0])
}

func (s *scenario) sends(from, to subjects.ProcID, c contribution) {
	fmt.Fprintf(&s.out, "\t%s tells %s", s.called(from), s.called(to))
	for _, p := range c.parts {
		fmt.Fprintf(&s.out, ": %s", strings.TrimSpace(p.value.Value.(string)))
	}
	for _, f := range c.failed {
		fmt.Fprintf(&s.out, "; %s %s", formatRanks(f.Ranks), actor.FromWire(f.Error).Text)
	}
	s.out.WriteString("\n")
}

// known is the caller's knowledge.
func (s *scenario) known() string {
	home := s.flight.home
	by := map[string][]int{}
	for view, is := range home.fates {
		what := [...]string{waiting: "waiting", answered: "answered", failed: "failed", missing: "missing"}[is]
		by[what] = append(by[what], view)
	}
	var all []string
	for _, what := range slices.Sorted(maps.Keys(by)) {
		all = append(all, formatRanks(ranksOf(by[what]))+" "+what)
	}
	if got := strings.TrimSpace(s.flight.result()); got != "" {
		all = append(all, "folded to "+got)
	}
	return strings.Join(all, ", ")
}

// formatRanks is ranks as views reads them.
func formatRanks(rs shape.Ranks) string {
	var all []string
	for _, s := range rs.Runs() {
		if s.Count == 1 {
			all = append(all, strconv.Itoa(s.First))
		} else {
			all = append(all, fmt.Sprintf("%d-%d", s.First, s.End()-1))
		}
	}
	return strings.Join(all, " ")
}
