package cast_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
)

// newSpanned is two hosts with four ranks each, two ranks in a process, and the spans of all.
func newSpanned(t *testing.T) (*cluster, *testproc.Spans) {
	t.Helper()
	spans := &testproc.Spans{}
	c := newCrowdWith(t, twoByFour(), 4, 2, nil, spans)
	spans.Clear()
	return c, spans
}

// requireCast checks the spans of one cast: that of the caller, then one of each process.
func requireCast(t *testing.T, all []testproc.Span, endpoint string, regions ...string) {
	t.Helper()
	require.Equal(t, actor.OpCast, all[0].Op.Kind)
	asked := map[string]int{}
	for _, s := range all[1:] {
		require.Equal(t, actor.OpReceive, s.Op.Kind)
		require.Equal(t, all[0].Own, s.Parent)
		require.Equal(t, endpoint, s.Op.Endpoint)
		require.Equal(t, s.Op.Asked, s.Outcome.Answered+s.Outcome.Failed+s.Outcome.Missing)
		require.Equal(t, 1, s.Ends)
		asked[s.Op.Region.String()] = s.Op.Asked
	}
	total := 0
	for _, r := range regions {
		require.Contains(t, asked, r)
		total += asked[r]
	}
	require.Len(t, asked, len(regions))
	require.Equal(t, all[0].Op.Asked, total)
}

func TestSpans_castHasOneForEachProcess_CAST14(t *testing.T) {
	c, spans := newSpanned(t)
	_, err := cast.Reduce(testkit.Soon(t), c.members, name, "x", concat)
	require.NoError(t, err)
	all := spans.Ended(t, 5)
	requireCast(t, all, "name", "host=0,gpu=0:2", "host=0,gpu=2:4", "host=1,gpu=0:2", "host=1,gpu=2:4")
	require.Zero(t, all[0].Parent)
	require.Equal(t, "*", all[0].Op.Region.String())
	require.Equal(t, actor.Outcome{Answered: 8}, all[0].Outcome)

	spans.Clear()
	_, err = cast.Gather(testkit.Soon(t), c.in(t, "gpu=1"), traced, actor.None{})
	require.NoError(t, err)
	requireCast(t, spans.Ended(t, 3), "traced", "host=0,gpu=1", "host=1,gpu=1")
}

func TestSpans_castHasFailedRanks_CAST14(t *testing.T) {
	c, spans := newSpanned(t)
	_, err := cast.Gather(testkit.Soon(t), c.members, refuse, 5)
	require.Error(t, err)
	all := spans.Ended(t, 5)
	require.Equal(t, 1, all[0].Outcome.Failed)
	require.Equal(t, "host=1,gpu=1", all[0].Outcome.FailedRegion)
	require.ErrorAs(t, all[0].Outcome.Err, new(*cast.CoverageError))
}

// In a bubble a busy machine cannot delay the seven answers past the deadline.
func TestSpans_castHasMissingRanks_CAST14(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c, spans := newSpanned(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := cast.Reduce(ctx, c.members, wait, 3, cast.Sum[int]())
		require.Error(t, err)
		all := spans.Ended(t, 5)
		requireCast(t, all, "wait", "host=0,gpu=0:2", "host=0,gpu=2:4", "host=1,gpu=0:2", "host=1,gpu=2:4")
		require.Equal(t, 1, all[0].Outcome.Missing)
		require.Equal(t, 7, all[0].Outcome.Answered)
		require.Equal(t, "host=0,gpu=3", all[0].Outcome.MissingRegion)
		for _, s := range all[1:] {
			if s.Op.Region.String() == "host=0,gpu=2:4" {
				require.Equal(t, "host=0,gpu=3", s.Outcome.MissingRegion)
				require.Equal(t, 1, s.Outcome.Answered)
			} else {
				require.Zero(t, s.Outcome.Missing)
			}
		}
	})
}

func TestSpans_castOfAHandlerIsAChildOfItsProcess_CAST14(t *testing.T) {
	c, spans := newSpanned(t)
	_, err := cast.Reduce(testkit.Soon(t), c.in(t, "host=1,gpu=3"), later, "x", concat)
	require.NoError(t, err)
	all := spans.Ended(t, 7)
	requireCast(t, all[:2], "later", "host=1,gpu=3")
	require.Equal(t, all[1].Own, all[2].Parent)
	requireCast(t, all[2:], "name", "host=0,gpu=0:2", "host=0,gpu=2:4", "host=1,gpu=0:2", "host=1,gpu=2:4")
}

func TestSpans_unansweredCastEndsAtItsMailboxes_CAST14(t *testing.T) {
	c, spans := newSpanned(t)
	require.NoError(t, cast.Send(testkit.Soon(t), c.in(t, "host=0"), note, 1))
	all := spans.Ended(t, 3)
	require.False(t, all[0].Op.Awaited)
	require.Equal(t, 4, all[0].Op.Asked)
	require.Equal(t, []actor.OperationKind{actor.OpCast, actor.OpReceive, actor.OpReceive}, testproc.Kinds(all))
}
