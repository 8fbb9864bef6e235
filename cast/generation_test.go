package cast_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// again are two hosts of four ranks each. The process of rank 4, the folder of its host, has
// restarted. Its third generation lives, without any report yet.
func again(t *testing.T, perProcess int) *cluster {
	t.Helper()
	return newCrowdAgain(t, twoByFour(), 4, perProcess, map[int]uint32{4: 2})
}

func eachAgain(t *testing.T, test func(t *testing.T, c *cluster)) {
	for _, perProcess := range []int{1, 2, 4} {
		t.Run(strconv.Itoa(perProcess)+" in a process", func(t *testing.T) {
			testkit.Virtual(t, func(t *testing.T) { test(t, again(t, perProcess)) })
		})
	}
}

// hostEvent delivers an event of a rank's host to one proc.
func (c *cluster) hostEvent(p *actor.Proc, rank int, gen uint32, status actor.Status) {
	e := actor.Event{Kind: actor.KindProc, Status: string(status), Mesh: c.place.Mesh.String(), Rank: rank,
		Gen: int(gen), Reason: "killed"}
	if e.Terminal() {
		p.Members().MarkDown(e)
	} else {
		p.Members().NoteGeneration(e)
	}
}

func (c *cluster) proc(rank int, gen uint32) subjects.ProcID {
	id := c.place.Proc(rank)
	id.Gen = gen
	return id
}

// requireWhole casts with every verb and wants every rank.
func (c *cluster) requireWhole(t *testing.T, in members) {
	t.Helper()
	var want []string
	var ranks []int
	for _, base := range in.region.Ranks() {
		want, ranks = append(want, "r"+strconv.Itoa(base)), append(ranks, base)
	}
	got, err := cast.Reduce(t.Context(), in, name, "r", concat)
	require.NoError(t, err)
	require.Equal(t, strings.Join(want, " "), got)
	all, err := cast.Gather(t.Context(), in, name, "r")
	require.NoError(t, err)
	require.Equal(t, want, all.Values())
	for pt, r := range cast.Stream(t.Context(), in, name, "r") {
		require.NoError(t, r.Err)
		require.Equal(t, want[pt.Rank()], r.Value)
	}
	require.NoError(t, cast.Send(t.Context(), in, note, 1))
	require.ElementsMatch(t, ranks, ranksOf(c.Take(t, len(want))))
	for range 10 {
		_, err := cast.Choose(t.Context(), in, who, actor.None{})
		require.NoError(t, err)
	}
}

func TestGenerations_currentHolderOfARankIsAskedAndFolds_CAST10(t *testing.T) {
	eachAgain(t, func(t *testing.T, c *cluster) {
		c.hostEvent(c.client, 4, 0, actor.Failed)
		c.hostEvent(c.client, 4, 2, actor.Running)
		for i, p := range c.procs { // some know half of it, the others nothing
			if i%2 == 1 {
				c.hostEvent(p, 4, 1, actor.Failed)
			}
		}
		for _, part := range []string{"*", "host=1", "gpu=0", "gpu=1:3", "host=1,gpu=0:2", "host=1,gpu=0"} {
			c.requireWhole(t, c.in(t, part))
		}
		from := c.members
		from.via = c.procs[4]
		c.requireWhole(t, from)
	})
}

func TestGenerations_restartedAggregatorFoldsForOtherHosts_CAST10(t *testing.T) {
	c := newCrowdAgain(t, shape.Of("host", 40).With("gpu", 2), 2, 1,
		map[int]uint32{0: 1, 6: 3, 7: 1, 60: 2, 79: 4})
	for rank, gen := range map[int]uint32{0: 1, 6: 3, 7: 1, 60: 2, 79: 4} {
		c.hostEvent(c.client, rank, gen, actor.Running)
	}
	c.requireWhole(t, c.members)
	all, err := cast.Fold(t.Context(), c.members, actor.NewEndpoint[*member, actor.None, any]("who"),
		actor.None{}, "sum")
	require.NoError(t, err)
	require.EqualValues(t, 79*80/2, all)
}

// A caller without any event casts to the first generation. It learns of the new one at once and
// casts to it from then on. No actor got the first cast.
func TestGenerations_callerRetriesWithTheNewerGeneration_CAST10(t *testing.T) {
	t.Parallel()
	verbs := map[string]func(t *testing.T, c *cluster) error{
		"Reduce": func(t *testing.T, c *cluster) error {
			_, err := cast.Reduce(t.Context(), c.members, who, actor.None{}, cast.Sum[int]())
			return err
		},
		"Gather": func(t *testing.T, c *cluster) error {
			_, err := cast.Gather(t.Context(), c.members, who, actor.None{})
			return err
		},
		"Stream": func(t *testing.T, c *cluster) (err error) {
			for _, r := range cast.Stream(t.Context(), c.members, who, actor.None{}) {
				if r.Err != nil {
					err = r.Err
				}
			}
			return err
		},
	}
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			eachAgain(t, func(t *testing.T, c *cluster) {
				begun := time.Now()
				err := verb(t, c)
				require.ErrorIs(t, err, actor.ErrProcDead)
				require.ErrorContains(t, err, "the proc is gone: generation 2 has its rank")
				require.Less(t, time.Since(begun), 10*time.Second, "it waits for its deadline")
				require.Equal(t, c.proc(4, 2), c.client.Members().LatestGeneration(c.proc(4, 0)))
				c.requireWhole(t, c.members)
			})
		})
	}
}

func TestGenerations_deadLetterRevealsTheNewGeneration_CAST10(t *testing.T) {
	t.Parallel()
	eachAgain(t, func(t *testing.T, c *cluster) {
		require.NoError(t, cast.Send(t.Context(), c.members, note, 1))
		n := c.place.PerProcess
		for _, e := range c.Take(t, 8-n) {
			require.True(t, e.rank < 4 || e.rank >= 4+n, "rank %d", e.rank)
		}
		require.NoError(t, c.client.Flush(t.Context()))
		require.Len(t, c.client.DeadLetters(), n)
		require.Equal(t, c.proc(4, 2), c.client.Members().LatestGeneration(c.proc(4, 0)))
		c.requireWhole(t, c.members)
	})
}

// A folding process knows more than the caller: it does not wait for a replaced proc.
func TestGenerations_aggregatorDoesNotAwaitEndedRanks_CAST10(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c := newCrowdAgain(t, twoByFour(), 4, 1, map[int]uint32{5: 2})
		c.hostEvent(c.procs[4], 5, 2, actor.Running)
		begun := time.Now()
		all, err := cast.Gather(t.Context(), c.in(t, "host=1,gpu=0:2"), who, actor.None{})
		require.ErrorContains(t, err, "asked 2 · answered 1 · failed 1 [host=1,gpu=1]")
		require.Equal(t, []int{4, 0}, all.Values())
		require.Less(t, time.Since(begun), 10*time.Second, "it waits for its deadline")
	})
}

// A rank known to be dead gets no message, but the cast to the others reports its successor.
func TestGenerations_rankPresumedDeadAnnouncesItsRestart_CAST10(t *testing.T) {
	c := again(t, 1)
	c.hostEvent(c.client, 4, 0, actor.Failed)
	require.ErrorContains(t, cast.Send(t.Context(), c.members, note, 1), "failed 1 [host=1,gpu=0]")
	require.Len(t, c.Take(t, 7), 7)
	require.Eventually(t, func() bool {
		return c.client.Members().LatestGeneration(c.proc(4, 0)) == c.proc(4, 2)
	},
		10*time.Second, time.Millisecond)
	c.requireWhole(t, c.members)
}

// The host has declared the process dead, but it still runs. It gets no messages.
func TestGenerations_castForALaterGenerationIsRefused_CAST10(t *testing.T) {
	c := again(t, 1)
	old := c.startMember(t, c.proc(4, 0))
	c.hostEvent(c.client, 4, 2, actor.Running)
	for range 5 {
		c.requireWhole(t, c.members)
	}
	// The process has received those casts before this message.
	ref := actor.RefOf[*member](old.ID().Actor("members")).Via(c.client)
	_, err := note.Call(t.Context(), ref, 99)
	require.NoError(t, err)
	require.Len(t, c.Take(t, 1), 1)
}
