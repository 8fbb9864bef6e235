package cast

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// flight is the return of a cast's answers. Its processes have folds only: the production tree and
// aggregation, in an order drawn by a seed.
type flight struct {
	tree  tree
	mode  mode
	rng   *rand.Rand
	procs map[subjects.ProcID]*process
	home  *rollout
	todo  []func()

	by     untypedReducer
	answer func(view int) any

	dead    map[subjects.ProcID]bool
	stopped map[subjects.ProcID][]func() // and what they do when they go on
	slow    subjects.ProcID              // whose ranks answer when somebody is asked around
	held    []func()                     // those answers
	// meanwhile runs between the reroute around silent processes and the end of the wait; nil: slow
	// ones answer.
	meanwhile func()
	messages  int
	received  map[subjects.ProcID]int // by process; the zero ID is home
	depth     map[subjects.ProcID]int // hops below it
	size      func(c contribution) int
	bytes     map[subjects.ProcID]int
	sends     func(from, to subjects.ProcID, c contribution) // hears of each message; nil: nobody does
	inTurn    bool                                           // what comes first happens first
}

// process is a folding one.
type process struct {
	aggregation
	views []int
	sent  contribution
	seen  map[subjects.ProcID]bool // whose death it has heard of
}

// concatenating folds texts, so the order shows.
var concatenating = untypedReducer{
	lift: func(a actor.Answer) (any, error) { return a.Value, nil },
	open: func(a actor.Answer) (any, error) { return a.Value, nil },
	fold: func(a, b any) (any, error) { return a.(string) + b.(string), nil },
}

func name(view int) any { return fmt.Sprintf("%d ", view) }

func newFlight(t tree, m mode, seed uint64) *flight {
	f := &flight{
		tree: t, mode: m, rng: rand.New(rand.NewPCG(seed, 1)), procs: map[subjects.ProcID]*process{},
		home: newHome(Target{Placement: t.placement, Region: t.region}, m), by: concatenating, answer: name,
		dead: map[subjects.ProcID]bool{}, received: map[subjects.ProcID]int{}, depth: map[subjects.ProcID]int{},
	}
	for view := range t.region.NumRanks() {
		if t.skip.Contains(view) {
			f.home.fail(shape.Interval(view, 1), failed, nil)
			continue
		}
		id := t.aggregatorAt(view)
		if f.procs[id] == nil {
			f.procs[id] = &process{seen: map[subjects.ProcID]bool{}}
			f.todo = append(f.todo, func() { f.at(id, func() { f.arrives(id, view) }) })
		}
		f.procs[id].views = append(f.procs[id].views, view)
	}
	return f
}

// arrives is the cast at a process: all its ranks answer at some time.
func (f *flight) arrives(id subjects.ProcID, view int) {
	p := f.procs[id]
	p.start(newJob(f.tree, f.mode, view))
	for dead := range p.seen {
		f.failProcess(p, dead)
	}
	for _, v := range p.views {
		answers := func() {
			f.at(id, func() {
				if !f.dead[id] && !p.done {
					p.state.answer(v, actor.Answer{Value: f.answer(v)})
					f.check(id)
				}
			})
		}
		if id == f.slow {
			f.held = append(f.held, answers)
		} else {
			f.todo = append(f.todo, answers)
		}
	}
	f.check(id)
}

// check sends complete folds up.
func (f *flight) check(id subjects.ProcID) {
	p := f.procs[id]
	if f.dead[id] || p.done || p.state == nil || p.state.pending > 0 {
		return
	}
	p.done, p.sent = true, p.combine(f.by, nil)
	f.pass(id)
}

func (f *flight) pass(from subjects.ProcID) {
	p := f.procs[from]
	p.sentTo = p.job.liveParent(func(id subjects.ProcID) bool {
		return p.seen[id] ||
			slices.Contains(p.bypassed, id)
	})
	to, c := p.sentTo, p.sent
	f.messages++
	if f.sends != nil {
		f.sends(from, to, c)
	}
	if f.size != nil {
		n := f.size(c)
		f.bytes[to], f.bytes[from] = f.bytes[to]+n, f.bytes[from]+n
	}
	f.todo = append(f.todo, func() {
		f.received[to]++
		f.depth[to] = max(f.depth[to], f.depth[from]+1)
		p := f.procs[to]
		f.at(to, func() {
			switch {
			case !to.IsValid():
				f.home.contribute(c)
			case f.dead[to]:
			case !p.done:
				p.contribute(c)
				f.check(to)
			}
		})
	})
}

// ids are the processes, in order.
func (f *flight) ids() []subjects.ProcID {
	return slices.SortedFunc(maps.Keys(f.procs), subjects.ProcID.Compare)
}

// failProcess fails the ranks of a dead process.
func (f *flight) failProcess(p *process, id subjects.ProcID) {
	p.failProc(id, errGone)
}

// endProcess ends a process, and reports that to the others, one by one.
func (f *flight) endProcess(id subjects.ProcID) {
	f.dead[id] = true
	views := f.procs[id].views
	f.todo = append(f.todo, func() {
		for _, v := range views {
			f.home.fail(shape.Interval(v, 1), failed, nil)
		}
	})
	for _, other := range f.ids() {
		p := f.procs[other]
		if other == id {
			continue
		}
		f.todo = append(f.todo, func() {
			if p.seen[id] = true; f.dead[other] || p.state == nil {
				return
			}
			if p.done && p.sentTo == id {
				f.pass(other)
			}
			if !p.done {
				f.failProcess(p, id)
			}
			f.check(other)
		})
	}
}

// at runs do in a process, or later if the process is stopped.
func (f *flight) at(id subjects.ProcID, do func()) {
	if later, stopped := f.stopped[id]; stopped {
		f.stopped[id] = append(later, do)
		return
	}
	do()
}

// endWaits ends the waits, from the lowest process up: each first reroutes around silent ones, then
// gives up.
func (f *flight) endWaits() {
	ids := f.ids()
	slices.SortStableFunc(ids, func(a, b subjects.ProcID) int {
		return len(f.procs[b].job.ancestors) - len(f.procs[a].job.ancestors)
	})
	for _, id := range ids {
		p := f.procs[id]
		if _, stopped := f.stopped[id]; stopped || p.done || id == f.slow {
			continue
		}
		if p.canReroute() {
			p.rerouted, p.state.rerouted = true, true
			f.asksAround(silentNodes(f.tree, f.tree.nodes(p.job.hostEnd, p.job.hi), p.state.isPending))
			f.run()
			f.wakeSilent()
		}
		if !p.done {
			p.state.expire(noAnswer)
			f.check(id)
			f.run()
		}
	}
	f.home.rerouted = true
	f.asksAround(silentNodes(f.tree, f.tree.roots(f.mode), f.home.isPending))
	f.run()
	f.wakeSilent()
}

// wakeSilent wakes the silent process after those below it have answered past it.
func (f *flight) wakeSilent() {
	if f.meanwhile == nil || f.slow == (subjects.ProcID{}) ||
		!slices.Contains(f.procs[f.slow].bypassed, f.tree.aggregatorAt(f.procs[f.slow].job.ancestors[0])) {
		return
	}
	meanwhile := f.meanwhile
	f.meanwhile = func() {}
	meanwhile()
}

func (f *flight) asksAround(views []int, below [][]subjects.ProcID) {
	if len(views) > 0 && f.meanwhile == nil {
		f.todo, f.held = append(f.todo, f.held...), nil
	}
	for i := range views {
		past := f.tree.aggregatorAt(views[i])
		for _, id := range below[i] {
			f.todo = append(f.todo, func() {
				f.at(id, func() {
					p := f.procs[id]
					p.bypassed = append(p.bypassed, past)
					if p.done && p.sentTo == past {
						f.pass(id)
					}
				})
			})
		}
	}
}

// run does everything there is to do, in any order.
func (f *flight) run() {
	for len(f.todo) > 0 {
		if f.inTurn {
			next := f.todo[0]
			f.todo = f.todo[1:]
			next()
			continue
		}
		i := f.rng.IntN(len(f.todo))
		next := f.todo[i]
		f.todo[i] = f.todo[len(f.todo)-1]
		f.todo = f.todo[:len(f.todo)-1]
		next()
	}
}

// result is the folded answer at the caller.
func (f *flight) result() string {
	var b strings.Builder
	for _, p := range f.home.parts {
		b.WriteString(p.value.Value.(string))
	}
	return b.String()
}

// anyTree draws a mesh, a region of it, and skipped ranks.
func anyTree(t *rapid.T) tree {
	perProcess := rapid.IntRange(1, 3).Draw(t, "ranks in a process")
	perHost := perProcess * rapid.IntRange(1, 3).Draw(t, "processes on a host")
	e := shape.Of("zone", rapid.IntRange(1, 3).Draw(t, "zones")).
		With("host", rapid.IntRange(1, 6).Draw(t, "hosts")).With("gpu", perHost)
	r := anyRegion(t, e)
	tr := tree{
		placement: Placement{Mesh: testMesh, Extent: e, PerHost: perHost, PerProcess: perProcess},
		region:    r, arity: rapid.IntRange(2, 5).Draw(t, "arity"),
		singleRoot: rapid.Bool().Draw(t, "one host folds for all"),
	}
	for view := range r.NumRanks() {
		if rapid.IntRange(0, 5).Draw(t, "skip") == 0 {
			tr.skip = shape.UnionOf(tr.skip, shape.Interval(view, 1))
		}
	}
	return tr
}

var testMesh = func() subjects.MeshID {
	id, err := subjects.ParseMeshID("mesh-0m75tr2qfjesm")
	if err != nil {
		panic(err)
	}
	return id
}()

func TestTree_repliesFoldOnceInRankOrder_CAST5(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := anyTree(t)
		m := rapid.SampledFrom([]mode{modeFold, modeCollect}).Draw(t, "mode")
		f := newFlight(tr, m, rapid.Uint64().Draw(t, "seed"))
		f.run()
		var want strings.Builder
		meant := 0
		for view := range tr.region.NumRanks() {
			if !tr.skip.Contains(view) {
				want.WriteString(name(view).(string))
				meant++
			}
		}
		require.Equal(t, want.String(), f.result())
		require.Zero(t, f.home.pending)
		require.Equal(t, meant, f.home.coverage().Answered)
		require.Equal(t, len(f.procs), f.messages, "one message of each process")
		for id, n := range f.received {
			switch most := tr.arity + tr.placement.PerHost/tr.placement.PerProcess - 1; {
			case m == modeFold && !id.IsValid() && tr.singleRoot:
				require.LessOrEqual(t, n, 1, "home")
			case m == modeFold && !id.IsValid():
				require.LessOrEqual(t, n, tr.arity, "home")
			case id.IsValid():
				require.LessOrEqual(t, n, most)
			}
		}
	})
}

func TestTree_deathsNeverLoseOrDuplicateLiveRanks_CAST6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := anyTree(t)
		f := newFlight(tr, rapid.SampledFrom([]mode{modeFold, modeCollect}).Draw(t, "mode"),
			rapid.Uint64().Draw(t, "seed"))
		for _, id := range f.ids() {
			if rapid.IntRange(0, 3).Draw(t, "dies") == 0 {
				f.todo = append(f.todo, func() { f.endProcess(id) })
			}
		}
		f.run()
		require.Zero(t, f.home.pending, "no rank is pending")
		got := strings.Fields(f.result())
		require.True(t, slices.IsSortedFunc(got, func(a, b string) int { return atoi(a) - atoi(b) }),
			"in rank order: %s", got)
		require.Len(t, got, f.home.coverage().Answered)
		require.Len(t, slices.Compact(slices.Clone(got)), len(got), "each once")
		for view := range tr.region.NumRanks() {
			switch in := slices.Contains(got, fmt.Sprint(view)); {
			case tr.skip.Contains(view):
				require.False(t, in)
			case !f.dead[tr.aggregatorAt(view)]:
				require.True(t, in, "rank %d lives, and its answer is not there", view)
			}
		}
	})
}
