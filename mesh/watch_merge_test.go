package mesh

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

func newRankStates(actors string) *rankStates {
	return &rankStates{actors: actors, latest: map[int]actor.Event{}}
}

func TestRankStates_incarnationsEndOnce_MESH6(t *testing.T) {
	r := newRankStates("")
	hear := func(rank, gen int, status actor.Status) (out []string) {
		changes, behind := r.step(actor.Event{Rank: rank, Gen: gen, Status: string(status), Reason: "said"})
		require.False(t, behind, "their events have no numbers")
		for _, e := range changes {
			out = append(out, fmt.Sprintf("%d.%d %s: %s", e.Rank, e.Gen, e.Status, e.Reason))
		}
		return out
	}
	require.Empty(t, hear(0, 0, actor.Running), "it ran before the watch began")
	require.Equal(t, []string{"1.0 failed: said"}, hear(1, 0, actor.Failed))
	require.Empty(t, hear(1, 0, actor.Failed))
	require.Empty(t, hear(1, 0, actor.Running), "an answer may be older than an event")
	require.Equal(t, []string{"1.1 running: said"}, hear(1, 1, actor.Running))
	require.Empty(t, hear(1, 0, actor.Stopped), "its end is known")
	require.Equal(t, []string{"0.0 failed: replaced by another generation", "0.2 running: said"},
		hear(0, 2, actor.Running))
	require.Equal(t, []string{"1.1 failed: replaced by another generation", "1.2 failed: said"},
		hear(1, 2, actor.Failed))
	require.Equal(t, []int{0}, r.live())
}

func TestRankStates_actorsEndWithTheirProcs(t *testing.T) {
	r := newRankStates("probe")
	r.step(eventList{events: []actor.Event{
		{Kind: actor.KindActor, Actor: "probe", Rank: 0, Status: string(actor.Stopped)},
		{Kind: actor.KindActor, Actor: "probe", Rank: 1, Status: string(actor.Running)},
	}})
	for rank, ends := range []bool{false, true, false} { // it has ended, it was there, it never was
		changes, _ := r.step(actor.Event{Kind: actor.KindProc, Rank: rank, Status: string(actor.Failed),
			Reason: "killed"})
		require.Equal(t, ends, len(changes) == 1, "rank %d", rank)
	}
	last := r.latest[1]
	require.Equal(t, []string{actor.KindActor, "probe", "killed"}, []string{last.Kind, last.Actor, last.Reason})
	require.Empty(t, r.live())
}

func TestRankStates_fencedControllerIsReported(t *testing.T) {
	r := newRankStates("")
	fenced := actor.Event{Step: agent.StepFenced, Seq: 1}
	changes, _ := r.step(fenced)
	require.Equal(t, []actor.Event{fenced}, changes)
	changes, _ = r.step(eventList{events: []actor.Event{fenced}, version: 1})
	require.Len(t, changes, 1, "also to a watcher with a list first")
}

func TestRankStates_removedRanksEndOnce_MESH24(t *testing.T) {
	r := newRankStates("")
	hear := func(arrived any) (out []string) {
		changes, _ := r.step(arrived)
		for _, e := range changes {
			out = append(out, fmt.Sprintf("%d.%d %s: %s", e.Rank, e.Gen, e.Status, e.Reason))
		}
		return out
	}
	status := func(rank, gen int, seq uint64, s actor.Status) actor.Event {
		return actor.Event{Rank: rank, Gen: gen, Seq: seq, Status: string(s), Reason: "said"}
	}
	require.Empty(t, hear(eventList{ranks: 4}), "no event of a rank that runs")
	require.Equal(t, []string{"3.0 stopped: said"}, hear(status(3, 0, 1, actor.Stopped)))
	require.Equal(t, []string{"2.0 stopped: its mesh shrinks"}, hear(eventList{version: 1, ranks: 2}),
		"the event is lost")
	require.Empty(t, r.ends(), "a later watcher never knew them")
	require.Equal(t, []string{"3.1 initializing: said"}, hear(status(3, 1, 2, actor.Initializing)))
	require.Empty(t, hear(eventList{version: 1, ranks: 2}), "the list is older than the mesh that has the rank again")
	require.Empty(t, hear(eventList{version: 2, ranks: 4}))
	require.Equal(t, []string{"2.0 stopped: its mesh shrinks", "3.1 stopped: its mesh shrinks"},
		hear(eventList{version: 3, ranks: 2}))
}

// history is a mesh of a few ranks with its controller's decisions: the oracle.
type history []actor.Event

func drawHistory(t *rapid.T) (all history) {
	gens, over := map[int]int{}, map[int]bool{}
	for range rapid.IntRange(0, 40).Draw(t, "events") {
		e := actor.Event{Rank: rapid.IntRange(0, 3).Draw(t, "rank"), Seq: uint64(len(all) + 1)}
		if over[e.Rank] {
			continue
		}
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			e.Status = string(actor.Failed)
			over[e.Rank] = true
		case 1: // a restart
			gens[e.Rank]++
			e.Status = string(actor.Initializing)
		default:
			e.Status = string(actor.Running)
		}
		e.Gen = gens[e.Rank]
		all = append(all, e)
	}
	return all
}

// list is the answer of the controller after the first n events to a watcher with a version.
func (h history) list(n int, version uint64) eventList {
	latest := map[int]actor.Event{}
	for _, e := range h[:n] {
		if e.Seq > version {
			latest[e.Rank] = e
		}
	}
	l := eventList{version: uint64(n)}
	for _, e := range h[:n] {
		if latest[e.Rank].Seq == e.Seq {
			l.events = append(l.events, e)
		}
	}
	return l
}

func TestRankStates_mergeReachesTheLatestStateDespiteLossAndDisorder_MESH6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		r := newRankStates("")
		ended := map[int]int{}
		last := map[int]uint64{}
		see := func(changes []actor.Event) {
			for _, e := range changes {
				require.Greater(t, e.Seq, last[e.Rank], "a rank goes forward only")
				last[e.Rank] = e.Seq
				if e.Terminal() {
					ended[e.Rank]++
				}
			}
		}
		see(first(r.step(h.list(rapid.IntRange(0, len(h)).Draw(t, "listed"), 0))))
		for range rapid.IntRange(0, 60).Draw(t, "steps") { // events are lost, repeated and late
			if len(h) > 0 && rapid.IntRange(0, 9).Draw(t, "list") > 0 {
				see(first(r.step(rapid.SampledFrom([]actor.Event(h)).Draw(t, "event"))))
				continue
			}
			at := rapid.IntRange(int(r.version), len(h)).Draw(t, "at")
			see(first(r.step(h.list(at, r.version))))
		}
		changes, behind := r.step(h.list(len(h), r.version))
		see(changes)
		require.False(t, behind)
		want := h.list(len(h), 0).events
		require.Len(t, r.latest, len(want))
		for _, e := range want {
			require.Equal(t, e, r.latest[e.Rank])
			require.Equal(t, e.Terminal(), ended[e.Rank] == 1, "each end once")
		}
	})
}

func TestRankStates_gapIsSeenUntilAListFillsIt_MESH6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		r := newRankStates("")
		r.step(h.list(0, 0))
		heard := map[uint64]bool{}
		for _, e := range rapid.SliceOf(rapid.SampledFrom([]actor.Event(append(h, actor.Event{})))).
			Draw(t, "heard") {
			if e.Seq == 0 {
				continue
			}
			heard[e.Seq] = true
			newest := slices.Max(slices.Collect(maps.Keys(heard)))
			_, behind := r.step(e)
			require.Equal(t, newest > r.version, behind)
			for n := uint64(1); n <= r.version; n++ {
				require.True(t, heard[n], "no number up to the version is missing")
			}
		}
		_, behind := r.step(h.list(len(h), r.version))
		require.False(t, behind)
	})
}

func first[A, B any](a A, _ B) A { return a }
