package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func somePlace() resolvedTarget {
	e := shape.Of("host", 2).With("gpu", 2)
	return resolvedTarget{base: e, region: e.Region()}
}

func TestCoverage_separatesFailedFromMissingRegions(t *testing.T) {
	p := somePlace()
	boom := p.failedReply(1, &actor.Error{Code: actor.CodePanic, Text: "panicked: boom", Actor: "x"})
	late := p.failedReply(2, actor.ErrDeadline)
	late2 := p.failedReply(3, actor.ErrDeadline)
	c := p.summarize([]reply{{Rank: 0, MS: 1.5}, boom, late, late2})
	require.Equal(t, "asked 4 · answered 1 · failed 1 [host=0,gpu=1] · missing 2 [host=1,gpu=*] · p50 1.5ms p99 1.5ms", c.String())
	err := c.asError(p.base)
	require.Equal(t, cli.ExitPartial, cli.ExitCode(err))
	require.EqualError(t, err, "3 of 4 ranks gave no value:\n  [host=0,gpu=1] panicked: boom\n  [host=1,gpu=*] deadline exceeded")
	require.NoError(t, p.summarize([]reply{{MS: 1}}).asError(p.base))
}

func TestCoverage_undeliverableCallIsItsOwnError(t *testing.T) {
	p := somePlace()
	var rs []reply
	for view := range 4 {
		rs = append(rs, p.failedReply(view, &actor.Error{Code: actor.CodeNoEndpoint, Text: "no such endpoint; it has add"}))
	}
	err := p.summarize(rs).asError(p.base)
	require.EqualError(t, err, "no rank takes the message: no such endpoint; it has add")
	require.Equal(t, cli.ExitNotFound, cli.ExitCode(err))
	rs[3] = reply{Rank: 3}
	require.Equal(t, cli.ExitPartial, cli.ExitCode(p.summarize(rs).asError(p.base)))
}

func TestReasons_omitAddressesOfTheRegion(t *testing.T) {
	p := somePlace()
	var lost []reply
	for view := range 4 {
		id := fmt.Sprintf("demo-7kd93x0b5m2qa/%d.0", view)
		lost = append(lost, p.failedReply(view, &actor.Error{Code: actor.CodeNoProc, Actor: id + "/counter", Text: "proc " + id + " is gone"}))
	}
	require.Equal(t, " [*] the proc is gone", reasons(p.base, lost))
}

func TestReasons_areBounded(t *testing.T) {
	e := shape.Of("gpu", 50)
	var lost []reply
	for rank := range 50 {
		lost = append(lost, reply{Rank: rank, Error: fmt.Sprint("reason ", rank)})
	}
	require.Contains(t, reasons(e, lost), "and 40 more reasons")
}

func TestExplain_statesAReasonOnceForAllItsRanks(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 2)
	failed := &mesh.SpawnError{Mesh: "demo-x", Ranks: 4}
	for rank := range 4 {
		pt, err := e.Point(rank)
		require.NoError(t, err)
		reason := fmt.Sprintf("demo-7kd93x0b5m2qa/%d.0/counter: no parameters", rank)
		failed.Failed = append(failed.Failed, mesh.RankStatus{Rank: rank, Point: pt, Status: agent.Status{Phase: agent.Failed, Reason: reason}})
	}
	require.EqualError(t, explainSpawnError(errors.Join(failed, nil)), "4 of 4 ranks of demo-x did not start: [*] no parameters")
	failed.Failed[3].Status.Reason = "exited with code 3"
	failed.Failed[0].Host, failed.Failed[1].Host, failed.Failed[3].Host = "a", "a", "b"
	require.EqualError(t, explainSpawnError(failed), "4 of 4 ranks of demo-x did not start on a, b:\n  [host=0,gpu=* | host=1,gpu=0] no parameters\n  [host=1,gpu=1] exited with code 3")
	require.EqualError(t, explainSpawnError(errors.New("other")), "other")
}

func TestQuantile_isTheNearestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sorted := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 200).Draw(t, "sorted")
		slices.Sort(sorted)
		percent := rapid.SampledFrom([]int{1, 50, 99, 100}).Draw(t, "percent")
		want := sorted[int(math.Ceil(float64(percent)*float64(len(sorted))/100))-1]
		require.Equal(t, want, quantile(sorted, percent))
	})
	require.Zero(t, quantile(nil, 50))
}
