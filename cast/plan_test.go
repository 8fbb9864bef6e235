package cast

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// matches is the simple oracle: does a token cover a point?
func matches(e shape.Extent, where string, at shape.Point) bool {
	parts := strings.Split(where, "-")
	for k, i := range whereDims(e) {
		if parts[k] != wildcard && parts[k] != strings.Split(strings.Split(at.String(), ",")[i], "=")[1][:1] {
			return false
		}
	}
	return true
}

func TestWhere_memberSubscribesToEachPatternThatNamesIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyExtent(t)
		where := joinWhere(slices.Collect(func(yield func(string) bool) {
			for range whereDims(e) {
				if !yield(rapid.SampledFrom([]string{wildcard, "0", "1", "2", "3"}).Draw(t, "token")) {
					return
				}
			}
		}))
		require.NoError(t, subjects.CheckCoords(where))
		for at := range e.Points() {
			tokens := whereTokens(e, at)
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(tokens))), 1<<len(whereDims(e)), "each once")
			require.Equal(t, matches(e, where, at), slices.Contains(tokens, where), "%s, %s", at, where)
		}
	})
}

// reached counts the packets of each process in a mesh, and all packets.
func reached(t require.TestingT, place Placement, p plan, members []member) (times map[int]int, packets int) {
	times = map[int]int{}
	if p.direct() {
		for _, m := range members {
			times[place.processOf(m.base)]++
		}
		return times, len(members)
	}
	for _, some := range p.deliveries(members) {
		where := p.where(some[0].base)
		got := map[int]bool{}
		for at := range place.Extent.Points() {
			if matches(place.Extent, where, at) {
				got[place.processOf(at.Rank())] = true
			}
		}
		for process := range got {
			times[process]++
		}
		for _, m := range some {
			require.True(t, got[place.processOf(m.base)], "%s does not reach rank %d", where, m.base)
		}
		packets++
	}
	return times, packets
}

func TestPlan_reachesEachMemberOnceAtLeastCost_CAST1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyExtent(t)
		r := anyCut(t, e)
		place := Placement{Extent: e, PerProcess: rapid.SampledFrom([]int{0, 1}).Draw(t, "in a process")}
		if rapid.Bool().Draw(t, "several") {
			for place.PerProcess = rapid.IntRange(2, 12).Draw(t, "at most"); e.NumRanks()%place.PerProcess != 0; {
				place.PerProcess--
			}
		}
		members := membersOf(place, r)
		for i := len(members) - 1; i >= 0; i-- {
			if rapid.IntRange(0, 9).Draw(t, "gone") == 0 {
				members = slices.Delete(members, i, i+1)
			}
		}
		p := planFor(place, members)
		times, packets := reached(t, place, p, members)
		for _, m := range members {
			require.Equal(t, 1, times[place.processOf(m.base)], "the process of rank %d", m.base)
		}
		wasted := 0
		for _, n := range times {
			wasted += n
		}
		cost := packets*costPublish + wasted*costDelivery
		if p.direct() {
			cost = packets * costDirect
		}
		require.LessOrEqual(t, cost, len(members)*costDirect, "no dearer than a packet for each")
		every, one := reached(t, place, plan{extent: e, spelledOut: make([]bool, len(whereDims(e)))}, members)
		if place.PerProcess <= 1 {
			require.LessOrEqual(t, cost, one*costPublish+len(every)*costDelivery, "no dearer than one packet for all")
		}
	})
}

// anyCut draws a region, perhaps with fewer dimensions than its extent.
func anyCut(t *rapid.T, e shape.Extent) shape.Region {
	r := anyRegion(t, e)
	for _, d := range r.Extent().Dims() {
		if d.Size == 1 && rapid.Bool().Draw(t, "drop "+d.Label) {
			r, _ = r.At(d.Label, 0)
		}
	}
	if rapid.Bool().Draw(t, "adjacent ranks alone") {
		from := rapid.IntRange(0, e.NumRanks()-1).Draw(t, "from")
		text := fmt.Sprintf("rank=%d/1", rapid.IntRange(from+1, e.NumRanks()).Draw(t, "to")-from)
		if from > 0 {
			text = fmt.Sprintf("%d+%s", from, text)
		}
		var err error
		r, err = shape.ParseRegion(text)
		require.NoError(t, err)
	}
	return r
}

// A rank outside the region drops the cast. The others are exactly the region, and each has the
// cast once.
func TestPlan_reachesEachRankOfTheRegionOnce_CAST1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := shape.Unit()
		for i := range rapid.IntRange(1, 3).Draw(t, "dims") {
			e = e.With(string(rune('a'+i)), rapid.IntRange(1, 4).Draw(t, "size"))
		}
		r := anyCut(t, e)
		place := Placement{Extent: e}
		members := membersOf(place, r)
		p := planFor(place, members)
		times, _ := reached(t, place, p, members)
		delivered, want := map[int]int{}, map[int]int{}
		for rank, n := range times {
			if _, in := r.ViewRank(rank); in { // the filter: Router.ranks
				delivered[rank] = n
			}
		}
		for _, base := range r.Ranks() {
			want[base] = 1
		}
		require.Equal(t, want, delivered)
	})
}

// membersOf are the processes of a region, for a caller outside the mesh.
func membersOf(place Placement, r shape.Region) (all []member) {
	last := -1
	for view, base := range r.Ranks() {
		if process := place.processOf(base); process != last {
			all, last = append(all, member{view: view, base: base}), process
		}
	}
	return all
}

func TestPlan_choosesExpectedSubjects(t *testing.T) {
	e := shape.Of("host", 16).With("gpu", 8)
	for text, want := range map[string][]string{
		"*": {"_-_"}, "host=2": {"2-_"}, "gpu=3": {"_-3"}, "host=1,gpu=0": nil, "host=1,gpu=0:2": nil,
		"gpu=1:8": {"_-_"}, "gpu=1:3": {"_-1", "_-2"}, "host=3:5": {"3-_", "4-_"}, "host=0:15": {"_-_"},
		"host=0:16:8,gpu=0:8:4": nil,
	} {
		r, err := shape.Select(e, text)
		require.NoError(t, err)
		place := Placement{Extent: e}
		members := membersOf(place, r)
		p := planFor(place, members)
		var got []string
		if !p.direct() {
			for _, some := range p.deliveries(members) {
				got = append(got, p.where(some[0].base))
			}
		}
		require.Equal(t, want, got, text)
	}
	one := shape.Of("host", 1).With("gpu", 1)
	require.Equal(t, "_", plan{extent: one, spelledOut: []bool{false}}.where(0),
		"dimensions of size 1 are left out, except the first")
}

// Two processes may know the mesh before and after a Grow. Each publish then reaches the same
// processes of the region.
func TestPlan_ofAnotherRevisionReachesEachMemberOnce_CAST13(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perHost := shape.Of("b", rapid.IntRange(1, 3).Draw(t, "b")).With("c", rapid.IntRange(1, 3).Draw(t, "c"))
		of := func(what string) shape.Extent {
			e, err := shape.Of("a", rapid.IntRange(1, 4).Draw(t, what)).Concat(perHost)
			require.NoError(t, err)
			return e
		}
		known, caller := of("hosts known to the members"), of("hosts known to the caller")
		members := membersOf(Placement{Extent: caller}, anyCut(t, caller))
		p := planFor(Placement{Extent: caller}, members)
		if p.direct() {
			return
		}
		times := map[int]int{}
		for _, some := range p.deliveries(members) {
			for at := range known.Points() {
				if slices.Contains(whereTokens(known, at), p.where(some[0].base)) {
					times[at.Rank()]++
				}
			}
		}
		for _, m := range members {
			if m.base < known.NumRanks() {
				require.Equal(t, 1, times[m.base], "rank %d", m.base)
			}
		}
	})
}
