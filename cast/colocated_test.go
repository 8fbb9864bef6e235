package cast_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

// crowds are meshes of three hosts with eight ranks each, in fewer and fewer processes.
func crowds(t *testing.T, test func(t *testing.T, c *cluster)) {
	for _, perProcess := range []int{2, 4, 8} {
		t.Run(strconv.Itoa(perProcess)+" in a process", func(t *testing.T) {
			test(t, newCrowd(t, shape.Of("host", 3).With("gpu", 8), 8, perProcess))
		})
	}
}

var crowdParts = []string{"*", "host=1", "gpu=3", "gpu=0:8:3", "host=0:3:2,gpu=2:7", "host=2,gpu=5",
	"host=1:3,gpu=6:8"}

func TestColocated_castReachesEachRankOnceWithItsPoint(t *testing.T) {
	crowds(t, func(t *testing.T, c *cluster) {
		for i, part := range crowdParts {
			in := c.in(t, part)
			require.NoError(t, cast.Send(t.Context(), in, note, i))
			seen := map[int]bool{}
			for _, e := range c.Take(t, in.region.NumRanks()) {
				view, member := in.region.ViewRank(e.rank)
				require.True(t, member && !seen[e.rank], "rank %d of %s", e.rank, part)
				require.Equal(t, []int{i, view}, []int{e.n, e.view})
				seen[e.rank] = true
			}
			require.Len(t, seen, in.region.NumRanks())
		}
	})
}

func TestColocated_repliesFoldAndGatherInRankOrder(t *testing.T) {
	crowds(t, func(t *testing.T, c *cluster) {
		for _, part := range crowdParts {
			in := c.in(t, part)
			var want []string
			for _, base := range in.region.Ranks() {
				want = append(want, "r"+strconv.Itoa(base))
			}
			got, err := cast.Reduce(t.Context(), in, name, "r", concat)
			require.NoError(t, err)
			require.Equal(t, strings.Join(want, " "), got, part)
			all, err := cast.Gather(t.Context(), in, name, "r")
			require.NoError(t, err)
			require.Equal(t, want, all.Values(), part)
			n := 0
			for pt, r := range cast.Stream(t.Context(), in, name, "r") {
				require.NoError(t, r.Err)
				require.Equal(t, want[pt.Rank()], r.Value)
				n++
			}
			require.Len(t, want, n)
		}
	})
}

func TestColocated_procCanCast(t *testing.T) {
	crowds(t, func(t *testing.T, c *cluster) {
		from := c.members
		from.via = c.procs[1]
		got, err := cast.Reduce(t.Context(), from, who, actor.None{}, cast.Sum[int]())
		require.NoError(t, err)
		require.Equal(t, 23*24/2, got)
		c.book.members = c.in(t, "host=1")
		text, err := relay.Call(t.Context(), c.Ref(2).Via(c.procs[9]), "r")
		require.NoError(t, err)
		require.Equal(t, "r8 r9 r10 r11 r12 r13 r14 r15", text)
	})
}

func TestColocated_failedAndDeadRanksAreNamed(t *testing.T) {
	crowds(t, func(t *testing.T, c *cluster) {
		sum, err := cast.Reduce(t.Context(), c.members, refuse, 9, cast.Sum[int]())
		require.ErrorContains(t, err, "asked 24 · answered 23 · failed 1 [host=1,gpu=1] · missing 0")
		require.Equal(t, 23*24/2-9, sum)

		waiting := make(chan error, 1)
		go func() {
			_, err := cast.Gather(t.Context(), c.members, wait, 13)
			waiting <- err
		}()
		c.Take(t, 1)
		c.publishEnd(13)
		require.ErrorContains(t, <-waiting, "answered 23 · failed 1 [host=1,gpu=5] · missing 0")
	})
}

// The death of a process's first proc is the death of all its procs.
func TestColocated_deadProcessFailsItsRanks(t *testing.T) {
	crowds(t, func(t *testing.T, c *cluster) {
		n := c.place.PerProcess
		waiting := make(chan error, 1)
		go func() {
			_, err := cast.Reduce(t.Context(), c.members, wait, 8, cast.Sum[int]())
			waiting <- err
		}()
		c.Take(t, 1)
		c.publishEnd(8)
		err := <-waiting
		var partial *cast.CoverageError
		require.ErrorAs(t, err, &partial)
		require.Equal(t, []int{24 - n, n, 0}, []int{partial.Coverage.Answered, len(partial.Coverage.Failed),
			len(partial.Coverage.Missing)})
	})
}

func TestColocated_castsKeepOrderWithDirectMessages(t *testing.T) {
	c := newCrowd(t, shape.Of("host", 3).With("gpu", 8), 8, 8)
	const rounds = 100
	for i := range rounds {
		require.NoError(t, cast.Send(t.Context(), c.members, note, 2*i))
		require.NoError(t, note.Send(t.Context(), c.Ref(13).Via(c.client), 2*i+1))
	}
	next := 0
	for _, e := range c.Take(t, rounds*25) {
		if e.rank == 13 {
			require.Equal(t, next, e.n)
			next++
		}
	}
	require.Equal(t, 2*rounds, next)
}

// The last rank of its process sends a message to itself or to another one there. The handler of
// that message waits, but all ranks have answered.
func TestColocated_replyWaitsForNoLaterHandler(t *testing.T) {
	for _, waiting := range []int{3, 0} {
		t.Run("rank "+strconv.Itoa(waiting)+" waits", func(t *testing.T) {
			c := newCrowd(t, shape.Of("gpu", 4), 4, 4)
			ctx, cancel := context.WithTimeout(t.Context(), 3*testkit.Patience)
			defer cancel()
			sums := make(chan int, 1)
			go func() {
				sum, err := cast.Reduce(ctx, c.members, thenWait, waiting, cast.Sum[int]())
				assert.NoError(t, err)
				sums <- sum
			}()
			require.Equal(t, 6, testkit.Next(t, sums))
			require.Equal(t, waiting, c.Take(t, 1)[0].rank)
		})
	}
}
