package mesh

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/shape"
)

var grid = shape.Of("host", 2).With("gpu", 2)

func printed(rank int, text string) LogLine {
	return LogLine{Rank: rank, Ranks: shape.DescribeRank(grid, rank), Count: 1, Stream: "stdout", Text: text}
}

// texts are groups in their printed form.
func texts(f *logFold, groups []*logGroup) (all []string) {
	for _, l := range f.describe(groups) {
		all = append(all, l.String())
	}
	return all
}

func TestFold_mergesEqualLinesOfSeveralRanks(t *testing.T) {
	m, now := newLogFold(grid, 4, 3*time.Second), time.Now()
	for _, l := range []LogLine{
		printed(0, "ready"), printed(1, "ready"), printed(0, "alone"), printed(2, "ready"), printed(3, "ready"),
		printed(2, "pair"), printed(3, "pair"),
	} {
		m.add(l, now)
	}
	require.Equal(t, []string{"[*] 4× ready"}, texts(m, m.ready(now)), "a line of all ranks does not wait")
	require.Equal(t, m.window/quietFraction, m.untilReady(now))
	require.Empty(t, m.ready(now))
	later := now.Add(m.window / quietFraction)
	require.Equal(t, []string{"[host=1,gpu=*] 2× pair", "[host=0,gpu=0] alone"}, texts(m, m.ready(later)))
	require.Equal(t, time.Hour, m.untilReady(later))
	require.Empty(t, m.last)
}

func TestFold_stepReturnsDueLinesAndNewsAtOnce(t *testing.T) {
	news, now := LogLine{Rank: -1, Text: "host a does not answer"}, time.Now()
	m := newLogFold(grid, 4, time.Hour)
	require.Equal(t, []LogLine{news}, m.step([]LogLine{printed(0, "waits"), news}, now))
	require.Equal(t, []LogLine{printed(0, "waits")}, m.step(nil, now.Add(m.window/quietFraction)))
	m = newLogFold(grid, 4, -1)
	require.Equal(t, []LogLine{printed(0, "a"), printed(1, "a")},
		m.step([]LogLine{printed(0, "a"), printed(1, "a")}, now), "without a window no line waits")
	folded := printed(0, "a")
	folded.Ranks, folded.Count = "host=0,gpu=*", 2
	require.Equal(t, []LogLine{folded}, FoldLogs(grid, []LogLine{printed(0, "a"), printed(1, "a")}))
}

func TestFold_showsTheRangeOfDifferingNumbers(t *testing.T) {
	m, now := newLogFold(grid, 4, 3*time.Second), time.Now()
	for rank, loss := range []string{"0.352", "0.331", "1e2", "12"} {
		m.add(printed(rank, "step 10 loss "+loss+" on gpu "+fmt.Sprint(rank)+"!"), now)
	}
	m.add(printed(0, "step ten"), now)
	m.add(printed(1, "step nine"), now)
	require.Equal(t, []string{
		"[*] [4 similar lines] step 10 loss 0.331…1e2 on gpu 0…3!", "[host=0,gpu=1] step nine",
		"[host=0,gpu=0] step ten",
	}, texts(m, m.takeAll()))
}

func TestFold_extraLinesOfOneRankDoNotSplitOthers(t *testing.T) {
	m, now := newLogFold(grid, 2, 3*time.Second), time.Now()
	for _, line := range []string{"a", "b", "c"} {
		m.add(printed(0, line), now)
	}
	for _, line := range []string{"x", "a", "y", "b", "c"} {
		m.add(printed(1, line), now)
	}
	require.Equal(t, []string{"[host=0,gpu=1] x", "[host=0,gpu=*] 2× a", "[host=0,gpu=1] y",
		"[host=0,gpu=*] 2× b", "[host=0,gpu=*] 2× c"}, texts(m, m.takeAll()))
}

func TestFold_delaysNoLineBeyondItsWindow(t *testing.T) {
	m, now := newLogFold(grid, 100, time.Second), time.Now()
	shown := map[int]time.Duration{}
	for i := range 30 { // a straggler every 100 ms keeps the group growing
		at := now.Add(time.Duration(i) * 100 * time.Millisecond)
		for _, g := range m.ready(at) {
			shown[len(g.lines)] = at.Sub(g.startedAt)
		}
		m.add(LogLine{Rank: i, Text: "same"}, at)
	}
	require.Equal(t, map[int]time.Duration{10: time.Second}, shown)
}

func TestFold_separatesStreamsAndBoundsMemory(t *testing.T) {
	m, now := newLogFold(grid, 2, time.Hour), time.Now()
	m.add(LogLine{Rank: 0, Stream: "stdout", Text: "a"}, now)
	m.add(LogLine{Rank: 1, Stream: "stderr", Text: "a"}, now)
	require.Len(t, m.takeAll(), 2)
	for i := range maxOpenGroups + 5 {
		m.add(LogLine{Text: strings.Repeat("x", i%7) + "y"}, now)
	}
	require.Len(t, m.ready(now), 5)
}

// Each rank's lines come out once and in order, whatever the arrival.
func TestFold_losesNoLineAndKeepsEachRanksOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, now := newLogFold(grid, 3, time.Second), time.Now()
		in, out := map[int][]string{}, map[int][]string{}
		take := func(groups []*logGroup) {
			for _, g := range groups {
				seen := map[int]bool{}
				for _, r := range g.lines {
					require.False(t, seen[r.Rank])
					seen[r.Rank] = true
					out[r.Rank] = append(out[r.Rank], r.Text)
				}
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "lines") {
			r := printed(rapid.IntRange(0, 2).Draw(t, "rank"), rapid.SampledFrom([]string{"a", "b", "s 1", "s 2", ""}).
				Draw(t, "line"))
			in[r.Rank] = append(in[r.Rank], r.Text)
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			m.add(r, now)
			take(m.ready(now))
		}
		take(m.takeAll())
		require.Equal(t, in, out)
	})
}
