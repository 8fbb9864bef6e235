package faults

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/integration/faults/history"
)

// handledAt is a history of messages handled by receivers. Each number is the milliseconds after a
// moment.
func handledAt(moment time.Time, by map[string][]int) []history.Record {
	var all []history.Record
	for receiver, at := range by {
		for _, ms := range at {
			all = append(all, history.Record{Kind: history.Handled,
				At: moment.Add(time.Duration(ms) * time.Millisecond), Note: receiver + "/a"})
		}
	}
	return all
}

func TestOvertime_runsFromTheLastDeadlineToTheLastFate(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(k history.Kind, from string, ms int) history.Record {
		return history.Record{Kind: k, At: start.Add(time.Duration(ms) * time.Millisecond),
			Stream: history.Stream{From: from, To: "to"}}
	}
	records := []history.Record{
		at(history.Sent, "a", 0), at(history.Sent, "a", 100), at(history.Undeliverable, "a", 900),
		at(history.Answered, "a", 5000),
		at(history.Sent, "b", 0), at(history.Indeterminate, "b", 700),
	}
	require.Equal(t, 300*time.Millisecond, overtime(records, 500*time.Millisecond))
	require.Zero(t, overtime(records, time.Minute))
}

func TestRecovery_runsFromTheFaultToTheLongestSilencesEnd(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	records := handledAt(start, map[string][]int{
		"left":  {0, 10, 101, 102, 350, 360}, // some were on their way when the fault began, at 100
		"right": {0, 99, 500, 501},
	})
	require.Equal(t, 50*time.Millisecond, recovery(records, at(100), at(300), "left"))
	require.Equal(t, 200*time.Millisecond, recovery(records, at(100), at(300), "left", "right"),
		"the worst counts")
	require.Zero(t, recovery(records, at(100), at(600), "right"), "it was back before the fault was over")
}

func TestFigures_fitOneLine(t *testing.T) {
	f := &figures{fault: fault{name: "F0"}, runs: 2, counts: map[string]int{}, samples: map[string][]float64{}}
	f.judge(t, history.Verdict{Sent: 3, Handled: 3})
	f.judge(t, history.Verdict{Sent: 4, Handled: 3, Undeliverable: 1})
	f.count("cuts", 5)
	f.time("recovery", 20*time.Millisecond)
	f.count("cuts", 6)
	require.Equal(t, "F0: lost=0 duplicated=0 reordered=0 of 7, indeterminate=0, undeliverable=1, cuts=11, "+
		"recovery ms=20 (n=2 runs)", f.String())
	for ms := range 100 {
		f.time("recovery", time.Duration(ms)*time.Millisecond)
	}
	require.Contains(t, f.String(), "recovery ms p50=49 p99=98 max=99")
}

func TestDamage_usuallyChangesItsInput(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	whole := []byte("a message that was whole")
	same := 0
	for range 1000 {
		if bytes.Equal(damage(r, whole), whole) {
			same++
		}
	}
	require.Less(t, same, 50)
	require.NotPanics(t, func() {
		for range 100 {
			damage(r, nil)
		}
	})
	require.Equal(t, "a message that was whole", string(whole))
}
