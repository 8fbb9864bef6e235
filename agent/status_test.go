package agent_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
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

func TestPhase_textRoundTripsAndOtherTextIsRefused(t *testing.T) {
	for p := agent.NotExist; p <= agent.Unknown; p++ {
		b, err := p.MarshalText()
		require.NoError(t, err)
		var back agent.Phase
		require.NoError(t, back.UnmarshalText(b))
		require.Equal(t, p, back)
		require.Equal(t, p == agent.Stopped || p == agent.Failed, p.Terminal())
	}
	var p agent.Phase
	require.ErrorContains(t, p.UnmarshalText([]byte("sleeping")),
		`phase "sleeping": want one of [not-exist initializing running stopping`)
	require.Equal(t, "phase(9)", agent.Phase(9).String())
	require.Equal(t, "phase(-1)", agent.Phase(-1).String())
	require.Error(t, json.Unmarshal([]byte(`{"until":3}`), &agent.WaitRequest{}))
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

func TestOverlay_roundTripsInTheFewestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		by := anyStatuses(t, "by")
		o := agent.OverlayOf(by)
		require.Equal(t, by, each(o, 1000))
		require.Equal(t, len(by), o.Ranks())
		for i := 1; i < len(o); i++ {
			end := o[i-1].First + o[i-1].Count
			require.True(t, end < o[i].First || end == o[i].First && o[i-1].Status != o[i].Status, text(o))
		}
	})
}

func TestOverlay_mergesReportsOfSeveralAgents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := anyStatuses(t, "all")
		parts := [3]map[int]agent.Status{{}, {}, {}}
		for r, s := range all {
			parts[r*7%3][r] = s
		}
		a, b, c := agent.OverlayOf(parts[0]), agent.OverlayOf(parts[1]), agent.OverlayOf(parts[2])
		want := agent.OverlayOf(all)
		left, err := agent.MergeOverlays.Fold(a.Merge(b), c)
		require.NoError(t, err)
		require.Equal(t, want, left)
		require.Equal(t, want, a.Merge(b.Merge(c)), "it is associative")
		shifted := each(want.Shift(5), 1000)
		require.Len(t, shifted, len(all))
		for r := range maps.Keys(all) {
			require.Equal(t, all[r], shifted[r+5])
		}
	})
}

func TestOverlay_hugeRunsCostNoMoreThanTheirNumber(t *testing.T) {
	huge := agent.Overlay{{First: 0, Count: math.MaxInt, Status: running},
		{First: math.MinInt, Count: math.MaxInt, Status: failed}}
	require.Len(t, huge.Merge(huge), 4)
	require.Equal(t, map[int]agent.Status{0: running, 1: running}, each(huge[:1], 2))
	require.LessOrEqual(t, len(each(huge, 3)), 3)
}

func TestStates_joinInRankOrder(t *testing.T) {
	a, b := []agent.State{{Rank: 0}}, []agent.State{{Rank: 1}, {Rank: 2}}
	all, err := agent.JoinStates.Fold(a[:1:1], b)
	require.NoError(t, err)
	require.Equal(t, []agent.State{{Rank: 0}, {Rank: 1}, {Rank: 2}}, all)
}
