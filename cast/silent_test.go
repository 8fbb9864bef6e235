package cast

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

func TestReroute_silentRankFailsNoOther_CAST6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := anyTree(t)
		f := newFlight(tr, rapid.SampledFrom([]mode{modeFold, modeCollect}).Draw(t, "mode"),
			rapid.Uint64().Draw(t, "seed"))
		ids := f.ids()
		if len(ids) == 0 {
			return
		}
		one := rapid.SampledFrom(ids).Draw(t, "who")
		f.stopped = map[subjects.ProcID][]func(){}
		stops := func() { f.stopped[one] = nil }
		if rapid.Bool().Draw(t, "before the cast") {
			f.todo = slices.Insert(f.todo, 0, stops)
			f.todo[0]()
			f.todo = f.todo[1:]
		} else {
			f.todo = append(f.todo, stops)
		}
		goesOn := func() {
			later := f.stopped[one]
			delete(f.stopped, one)
			if p := f.procs[one]; p.state != nil && !p.done && rapid.Bool().Draw(t, "its time is over first") {
				p.state.expire(noAnswer)
				f.check(one)
			}
			for _, do := range later {
				do()
			}
		}
		f.run()
		if rapid.Bool().Draw(t, "goes on in time") {
			f.todo = append(f.todo, goesOn)
		}
		f.endWaits()
		f.once(t, func(view int) bool { return tr.aggregatorAt(view) == one })
		goesOn()
		f.run()
		f.once(t, func(view int) bool { return tr.aggregatorAt(view) == one })
	})
}

// A silent folder wakes up. Its result lacks a slow rank below it, because that answer went past
// it. The result has more ranks than the bypassing ones, but must not replace them.
func TestReroute_partialLateReplyReplacesNoOther_CAST6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := anyTree(t)
		f := newFlight(tr, rapid.SampledFrom([]mode{modeFold, modeCollect}).Draw(t, "mode"),
			rapid.Uint64().Draw(t, "seed"))
		one, found := f.pickSlow(t)
		if !found {
			return
		}
		f.stopped = map[subjects.ProcID][]func(){one: nil}
		f.run()
		f.endWaits()
		only := func(view int) bool { return tr.aggregatorAt(view) == one }
		f.once(t, only)
		later := f.stopped[one]
		delete(f.stopped, one)
		p := f.procs[one]
		for _, do := range later { // the cast, and what came from below, before its own ranks have answered
			do()
		}
		f.run()
		if p.state != nil && !p.done {
			p.state.expire(noAnswer)
			f.check(one)
		}
		f.run()
		f.once(t, only)
	})
}

// The same, but the slow rank's answer comes after the report of the waking folder.
func TestReroute_lateAggregatorKeepsNoBypassedRanks_CAST6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := anyTree(t)
		f := newFlight(tr, rapid.SampledFrom([]mode{modeFold, modeCollect}).Draw(t, "mode"),
			rapid.Uint64().Draw(t, "seed"))
		one, found := f.pickSlow(t)
		if !found {
			return
		}
		f.stopped = map[subjects.ProcID][]func(){one: nil}
		f.meanwhile = func() {
			p, later := f.procs[one], f.stopped[one]
			delete(f.stopped, one)
			for _, do := range later {
				do()
			}
			if f.run(); p.state != nil && !p.done {
				p.state.expire(noAnswer)
				f.check(one)
			}
			f.run()
			f.todo, f.held = append(f.todo, f.held...), nil
			f.run()
		}
		f.run()
		f.endWaits()
		f.home.expire(nil)
		f.once(t, func(view int) bool { return tr.aggregatorAt(view) == one })
	})
}

var noAnswer = &actor.Error{Code: actor.CodeDeadline}

// pickSlow picks a slow process with a folder's duty.
func (f *flight) pickSlow(t *rapid.T) (one subjects.ProcID, found bool) {
	var below []subjects.ProcID
	for id, p := range f.procs {
		if j := newJob(f.tree, f.mode, p.views[0]); len(j.ancestors) > 0 {
			below = append(below, id)
		}
	}
	if len(below) == 0 {
		return one, false
	}
	slices.SortFunc(below, subjects.ProcID.Compare)
	f.slow = rapid.SampledFrom(below).Draw(t, "who is slow")
	return f.tree.aggregatorAt(newJob(f.tree, f.mode, f.procs[f.slow].views[0]).ancestors[0]), true
}

// once requires each rank once in the result, in order, except for some permitted ones.
func (f *flight) once(t *rapid.T, may func(view int) bool) {
	got := strings.Fields(f.result())
	require.True(t, slices.IsSortedFunc(got, func(a, b string) int { return atoi(a) - atoi(b) }),
		"in rank order: %s", got)
	require.Len(t, slices.Compact(slices.Clone(got)), len(got), "each once")
	for view := range f.tree.region.NumRanks() {
		if !f.tree.skip.Contains(view) && !may(view) {
			require.Contains(t, got, fmt.Sprint(view))
		}
	}
}

func atoi(s string) (n int) {
	_, _ = fmt.Sscan(s, &n)
	return n
}
