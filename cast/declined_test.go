package cast_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
)

var (
	stop = actor.NewEndpoint[*member, actor.None, actor.None]("stop") // a raw port that holds the pump
	fill = actor.NewEndpoint[*member, []byte, actor.None]("fill")
)

// The caller has no room for the folder of a host: only the folder fails.
func TestCast_refusedRankDoesNotFailItsHost_CAST4(t *testing.T) {
	t.Parallel()
	c := newCluster(t, twoByFour(), 4)
	_, err := cast.Reduce(t.Context(), c.members, who, actor.None{}, cast.Sum[int]())
	require.NoError(t, err)
	held, release := make(chan struct{}), make(chan struct{})
	actor.OpenRaw(c.procs[0], "members", "stop", func(actor.Incoming) { close(held); <-release })
	require.NoError(t, stop.Send(t.Context(), c.Ref(0).Via(c.procs[7]), actor.None{}))
	<-held
	// packets published from the queue make room until the window is full
	for refused := 0; refused < 20; refused++ {
		for _, size := range []int{60 << 10, 1 << 10, 0} {
			for err = fill.Send(t.Context(), c.Ref(0).Via(c.client), make([]byte, size)); err == nil; refused = 0 {
				err = fill.Send(t.Context(), c.Ref(0).Via(c.client), make([]byte, size))
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.ErrorIs(t, err, actor.ErrBacklog)
	failed := make(chan error, 1)
	go func() {
		_, err := cast.Aggregate(t.Context(), c.members, note, 1, cast.Count[actor.None]())
		failed <- err
	}()
	c.Take(t, 7) // so the folder was refused, and is not asked again
	close(release)
	var cov *cast.CoverageError
	require.ErrorAs(t, <-failed, &cov)
	require.Equal(t, 7, cov.Coverage.Answered, "%v", cov)
}

// The process of the rank runs, but its actor has stopped: Stream yields that at once.
func TestStream_reportsAStoppedRank_CAST4(t *testing.T) {
	d := newCrowdWithout(t, shape.Of("gpu", 4), 4, 2, 1)
	for pt, r := range cast.Stream(testkit.Soon(t), d.members, who, actor.None{}) {
		if pt.Rank() == 1 {
			require.ErrorIs(t, r.Err, actor.ErrNoProc)
		}
	}
}

func newCrowdWithout(t *testing.T, e shape.Extent, perHost, perProcess, absent int) *cluster {
	t.Helper()
	c := newCrowd(t, e, perHost, perProcess)
	// the same, without a rank: a mesh of its own
	c.place.Mesh = testproc.MeshID(t, "mesh")
	c.procs = nil
	for rank := range e.NumRanks() {
		if rank == absent {
			c.procs = append(c.procs, nil)
			continue
		}
		c.procs = append(c.procs, c.startMember(t, c.place.Proc(rank)))
	}
	return c
}

// The sender is in a process of several ranks. The error names each missing rank, and the others
// get the message.
func TestSend_reportsEachUnreachedRankOfItsProcess_CAST4(t *testing.T) {
	c := newCrowd(t, twoByFour(), 4, 4)
	from := c.members
	from.via = c.procs[3]
	for _, rank := range []int{0, 2, 6} { // two of the caller's process, and one of another
		<-c.procs[rank].StopActor(c.Ref(rank).ID().Name, "test")
	}
	err := cast.Send(t.Context(), from, note, 1)
	var cov *cast.CoverageError
	require.ErrorAs(t, err, &cov)
	require.Equal(t, "host=0,gpu=0 | host=0,gpu=2", cov.Coverage.FailedRegion())
	require.Empty(t, cov.Coverage.Missing)
	require.ElementsMatch(t, []int{1, 3, 4, 5, 7}, ranksOf(c.Take(t, 5)))
}

func ranksOf(all []entry) (ranks []int) {
	for _, e := range all {
		ranks = append(ranks, e.rank)
	}
	return ranks
}

// A process lacks one rank: that one yields a dead letter, and the others get the message.
func TestSend_stoppedRankFailsNoOtherOfItsProcess(t *testing.T) {
	c := newCrowdWithout(t, shape.Of("gpu", 4), 4, 4, 2)
	require.NoError(t, cast.Send(t.Context(), c.members, note, 1))
	require.NoError(t, c.client.Flush(t.Context()))
	require.ElementsMatch(t, []int{0, 1, 3}, ranksOf(c.Take(t, 3)))
	require.Eventually(t, func() bool {
		back := c.client.DeadLetters()
		return len(back) == 1 && back[0].Reason.Actor == c.place.Proc(2).String()
	}, 10*time.Second, time.Millisecond)
}

// The caster's own rank has no actor. The others get the message, and the error names the missing
// rank.
func TestSend_namesTheUnreachedRank_CAST4(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	from := c.members
	from.via = c.procs[3]
	ref := c.Ref(3)
	<-c.procs[3].StopActor(ref.ID().Name, "test")
	err := cast.Send(t.Context(), from, note, 1)
	t.Log(err)
	require.Len(t, c.Take(t, 7), 7)
	var cov *cast.CoverageError
	if err != nil {
		require.True(t, errors.As(err, &cov), "%v", err)
	}
}
