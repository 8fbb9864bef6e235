package agent_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/agent"
)

// text is an overlay in one line.
func text(o agent.Overlay) string {
	var runs []string
	for _, r := range o {
		runs = append(runs, fmt.Sprintf("%d+%d %s", r.First, r.Count, r.Status))
	}
	return strings.Join(runs, ", ")
}

// anyStatuses draws statuses for some ranks.
func anyStatuses(t *rapid.T, label string) map[int]agent.Status {
	return rapid.MapOfN(rapid.IntRange(0, 40), rapid.SampledFrom([]agent.Status{running, stopped, failed}), 0,
		30).Draw(t, label)
}

func each(o agent.Overlay, limit int) map[int]agent.Status {
	by := map[int]agent.Status{}
	o.Each(limit, func(r int, s agent.Status) { by[r] = s })
	return by
}

// requireFewestRuns requires ascending runs without overlap, as few as possible.
func requireFewestRuns(t require.TestingT, o agent.Overlay) {
	for i, run := range o {
		require.Positive(t, run.Count, text(o))
		if i > 0 {
			end := o[i-1].First + o[i-1].Count
			require.True(t, end < run.First || end == run.First && o[i-1].Status != run.Status, text(o))
		}
	}
}

func TestOverlay_roundTripsInTheFewestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		by := anyStatuses(t, "by")
		o := agent.OverlayOf(by)
		require.Equal(t, by, each(o, 1000))
		requireFewestRuns(t, o)
		shifted := each(o.Shift(5), 1000)
		require.Len(t, shifted, len(by))
		for r := range maps.Keys(by) {
			require.Equal(t, by[r], shifted[r+5])
		}
	})
}

func TestOverlay_mergeKeepsTheMostAdvancedStatusOfEachRank_AGT12(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := map[int]agent.Status{}
		var parts [3]agent.Overlay
		for i, label := range []string{"a", "b", "c"} {
			by := anyStatuses(t, label)
			parts[i] = agent.OverlayOf(by)
			for rank, s := range by {
				if old, has := want[rank]; !has || s.Phase > old.Phase {
					want[rank] = s
				}
			}
		}
		a, b, c := parts[0], parts[1], parts[2]
		kept := slices.Clone(a)
		ab, err := agent.MergeOverlays.Fold(a, b)
		require.NoError(t, err)
		all := ab.Merge(c)
		require.Equal(t, agent.OverlayOf(want), all)
		require.Equal(t, ab, b.Merge(a), "commutative")
		require.Equal(t, all, a.Merge(b.Merge(c)), "associative")
		require.Equal(t, all, all.Merge(b), "idempotent")
		require.Equal(t, kept, a, "as it was")
	})
}

func TestOverlay_hugeRunsCostNoMoreThanTheirNumber_AGT12(t *testing.T) {
	huge := agent.Overlay{{First: 0, Count: math.MaxInt, Status: running},
		{First: math.MinInt, Count: math.MaxInt, Status: failed}, {First: 5, Count: math.MaxInt, Status: failed}}
	require.Equal(t, huge[:1], huge.Merge(huge), "runs that are out of order do not count")
	require.Equal(t,
		agent.Overlay{{First: 0, Count: 3, Status: failed}, {First: 3, Count: math.MaxInt - 3, Status: running}},
		huge.Merge(agent.Overlay{{First: -4, Count: 7, Status: failed}}))
	require.Equal(t, map[int]agent.Status{0: running, 1: running}, each(huge[:1], 2))
	require.LessOrEqual(t, len(each(huge, 3)), 3)
}

func FuzzOverlay(f *testing.F) {
	f.Add([]byte(`[{"first":0,"count":4,"status":{"phase":"running"}}]`),
		[]byte(`[{"first":2,"count":9223372036854775807,"status":{"phase":"failed"}}]`))
	f.Add([]byte(`[{"first":3,"count":-1},{"first":-9,"count":12}]`), []byte(`null`))
	f.Fuzz(func(t *testing.T, left, right []byte) {
		var a, b agent.Overlay
		if json.Unmarshal(left, &a) != nil || json.Unmarshal(right, &b) != nil {
			return
		}
		ab := a.Merge(b)
		requireFewestRuns(t, ab)
		require.LessOrEqual(t, len(ab), 2*(len(a)+len(b)))
		require.Equal(t, ab, b.Merge(a))
	})
}
