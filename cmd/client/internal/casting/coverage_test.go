package casting

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/shape"
)

func somePlace() target.Resolved {
	e := shape.Of("host", 2).With("gpu", 2)
	return target.Resolved{Base: e, Region: e.Region()}
}

func TestCoverage_separatesFailedFromMissingRegions(t *testing.T) {
	p := somePlace()
	boom := failedReply(p, 1, &actor.Error{Code: actor.CodePanic, Text: "panicked: boom", Actor: "x"})
	late := failedReply(p, 2, actor.ErrDeadline)
	late2 := failedReply(p, 3, actor.ErrDeadline)
	c := summarize(p, []Reply{{Rank: 0, MS: 1.5}, boom, late, late2})
	require.Equal(t, "asked 4 · answered 1 · failed 1 [host=0,gpu=1] · missing 2 [host=1,gpu=*] · p50 "+
		"1.5ms p99 1.5ms", c.String())
	err := c.asError(p.Base)
	require.Equal(t, cli.ExitPartial, cli.ExitCode(err))
	require.EqualError(t, err, "3 of 4 ranks gave no value:\n  [host=0,gpu=1] panicked: boom\n  "+
		"[host=1,gpu=*] deadline exceeded")
	require.NoError(t, summarize(p, []Reply{{MS: 1}}).asError(p.Base))
}

func TestCoverage_undeliverableCallIsItsOwnError(t *testing.T) {
	p := somePlace()
	var rs []Reply
	for view := range 4 {
		rs = append(rs, failedReply(p, view,
			&actor.Error{Code: actor.CodeNoEndpoint, Text: "no such endpoint; it has add"}))
	}
	err := summarize(p, rs).asError(p.Base)
	require.EqualError(t, err, "no rank takes the message: no such endpoint; it has add")
	require.Equal(t, cli.ExitNotFound, cli.ExitCode(err))
	rs[3] = Reply{Rank: 3}
	require.Equal(t, cli.ExitPartial, cli.ExitCode(summarize(p, rs).asError(p.Base)))
}

func TestReasons_omitAddressesOfTheRegion(t *testing.T) {
	p := somePlace()
	var lost []Reply
	for view := range 4 {
		id := fmt.Sprintf("demo-7kd93x0b5m2qa/%d.0", view)
		lost = append(lost, failedReply(p, view,
			&actor.Error{Code: actor.CodeNoProc, Actor: id + "/counter", Text: "proc " + id + " is gone"}))
	}
	all := append(lost[1:], Reply{Rank: 0})
	require.EqualError(t, summarize(p, all).asError(p.Base),
		"3 of 4 ranks gave no value: [host=*,gpu=1 | host=1,gpu=0] the proc is gone")
}

func TestReasons_areBounded(t *testing.T) {
	e := shape.Of("gpu", 50)
	var lost []Reply
	for rank := range 50 {
		lost = append(lost, Reply{Rank: rank, Error: fmt.Sprint("reason ", rank)})
	}
	for i := range lost {
		lost[i].outcome = failed
	}
	err := summarize(target.Resolved{Base: e}, lost).asError(e)
	require.ErrorContains(t, err, "and 40 more reasons")
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
