package cast_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestCast_reachesEachRankOfTheRegionOnce_CAST1(t *testing.T) {
	c := newCluster(t, shape.Of("host", 2).With("gpu", 3).With("lane", 2), 6)
	for _, text := range []string{
		"*", "host=1", "gpu=2", "lane=0", "host=0,gpu=1", "host=1,gpu=2,lane=1", "gpu=1:3", "gpu=0:3:2,lane=1",
		"host=0:1,gpu=0:2",
	} {
		part := c.in(t, text)
		require.NoError(t, cast.Send(t.Context(), part, note, 7), text)
		_, err := cast.Gather(t.Context(), c.members, who, actor.None{}) // whatever comes before it is there now
		require.NoError(t, err, text)
		var want, got []int
		for _, base := range part.region.Ranks() {
			want = append(want, base)
		}
		for _, e := range c.Take(t, len(want)) {
			got = append(got, e.rank)
		}
		slices.Sort(got)
		require.Equal(t, want, got, text)
	}
}

func TestCast_keepsOrderWithDirectMessages_CAST1(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 3), 3)
	const n = 1000
	for i := range n {
		switch i % 3 {
		case 0:
			require.NoError(t, cast.Send(t.Context(), c.members, note, i))
		case 1:
			require.NoError(t, cast.Send(t.Context(), c.in(t, "gpu=1:3"), note, i))
		default:
			require.NoError(t, note.Send(t.Context(), c.Ref(2).Via(c.client), i))
		}
		if i%100 == 99 { // mailboxes hold 1,024
			_, err := cast.Gather(t.Context(), c.members, who, actor.None{})
			require.NoError(t, err)
		}
	}
	seen := make([][]int, 3)
	for _, e := range c.Take(t, n/3+1+2*(n/3)+n) {
		seen[e.rank] = append(seen[e.rank], e.n)
	}
	require.Len(t, seen[2], n)
	for rank, got := range seen {
		require.True(t, slices.IsSorted(got), "rank %d", rank)
		require.Len(t, slices.Compact(got), len(got), "rank %d", rank)
	}
}

func TestCast_handlerSeesTheTraceOfTheCaller_CAST1(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	trace, err := actor.ParseTrace(parent)
	require.NoError(t, err)
	c := newCrowd(t, twoByFour(), 4, 2)
	for name, via := range map[string]*actor.Proc{"from outside": c.client, "from a rank": c.procs[0]} {
		to := c.members
		to.via = via
		for _, trace := range []actor.Trace{trace, {}} {
			ctx := actor.WithTrace(t.Context(), trace)
			all, err := cast.Gather(ctx, to, traced, actor.None{})
			require.NoError(t, err, name)
			require.Equal(t, slices.Repeat([]string{trace.String()}, 8), all.Values(), name)
			folded, err := cast.Reduce(ctx, to, traced, actor.None{}, concat)
			require.NoError(t, err, name)
			require.Equal(t, strings.Join(all.Values(), " "), folded, name)
			one, err := cast.Choose(ctx, to, traced, actor.None{})
			require.NoError(t, err, name)
			require.Equal(t, trace.String(), one, name)
			for at, r := range cast.Stream(ctx, c.in(t, "gpu=1"), traced, actor.None{}) { // a message for each
				require.NoError(t, r.Err, name)
				require.Equal(t, trace.String(), r.Value, at)
			}
		}
	}
}

func TestCast_handlerSeesItsPointAndTheSender_CAST1(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	require.NoError(t, cast.Send(t.Context(), c.in(t, "gpu=1:3"), note, 0))
	got := c.Take(t, 4)
	slices.SortFunc(got, func(a, b entry) int { return cmp.Compare(a.rank, b.rank) })
	client := c.client.ID().Actor("client").String()
	require.Equal(t, []entry{
		{1, 0, "host=0/2,gpu=0/2", 0, client}, {2, 0, "host=0/2,gpu=1/2", 1, client},
		{5, 0, "host=1/2,gpu=0/2", 2, client}, {6, 0, "host=1/2,gpu=1/2", 3, client},
	}, got)
	require.NoError(t, note.Send(t.Context(), c.Ref(6).Via(c.client), 0))
	require.Equal(t, []entry{{6, 0, "host=1/2,gpu=2/4", 6, client}}, c.Take(t, 1),
		"a direct message: its place in the mesh")
}

func TestGather_returnsOneValuePerRankInOrder_CAST4(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	all, err := cast.Gather(t.Context(), c.members, who, actor.None{})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, all.Values())
	some, err := cast.Gather(t.Context(), c.in(t, "gpu=3"), name, "n")
	require.NoError(t, err)
	require.Equal(t, []string{"n3", "n7"}, some.Values())
	require.Equal(t, "host=2,gpu=1", some.Region().Extent().String())
}

func TestGather_namesAFailedRankAndKeepsTheOthers_CAST4(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	all, err := cast.Gather(t.Context(), c.members, refuse, 5)
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, "host=1,gpu=1", partial.Coverage.FailedRegion())
	require.Empty(t, partial.Coverage.MissingRegion())
	require.ErrorContains(t, err, "asked 8 · answered 7 · failed 1 [host=1,gpu=1] · missing 0; rank 5 "+
		"(host=1/2,gpu=1/4): not today")
	require.Equal(t, []int{0, 1, 2, 3, 4, 0, 6, 7}, all.Values())

	sum, err := cast.Reduce(t.Context(), c.members, refuse, 5, cast.Sum[int]())
	require.ErrorAs(t, err, &partial)
	require.Equal(t, 28-5, sum)
	require.Equal(t, "host=1,gpu=1", partial.Coverage.FailedRegion())
}

func TestStream_yieldsEachRankOnceAndCanEndEarly_CAST4(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	seen := map[int]int{}
	for pt, r := range cast.Stream(t.Context(), c.in(t, "host=1"), refuse, 6) {
		require.NotContains(t, seen, pt.Rank())
		seen[pt.Rank()] = r.Value
		require.Equal(t, pt.Rank() == 2, r.Err != nil, "%v", r.Err)
	}
	require.Equal(t, map[int]int{0: 4, 1: 5, 2: 0, 3: 7}, seen)
	for range cast.Stream(t.Context(), c.members, who, actor.None{}) {
		break
	}
	_, err := cast.Gather(t.Context(), c.members, who, actor.None{})
	require.NoError(t, err)
}

func TestGather_deadlineNamesMissingRanksAndKeepsTheRest_CAST4(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c := newCluster(t, twoByFour(), 4)
		for _, fold := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			var err error
			if fold {
				var sum int
				sum, err = cast.Reduce(ctx, c.members, wait, 5, cast.Sum[int]())
				require.Equal(t, 28-5, sum, "the host's other answers were folded in time")
			} else {
				_, err = cast.Gather(ctx, c.members, wait, 5)
			}
			require.ErrorIs(t, err, actor.ErrDeadline)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var partial *cast.CoverageError
			require.ErrorAs(t, err, &partial)
			require.Equal(t, "host=1,gpu=1", partial.Coverage.MissingRegion())
			require.Empty(t, partial.Coverage.Failed)
		}
	})
}

func TestCast_callerCanCancel_CAST4(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 2), 2)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		c.Take(t, 1) // rank 1 waits
		cancel()
	}()
	_, err := cast.Gather(ctx, c.members, wait, 1)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "the caller gave up")
}

func TestCast_endsWhenTheCallersProcCloses_CAST4(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shape.Of("gpu", 2), 2)
	done := make(chan error, 1)
	go func() {
		_, err := cast.Gather(context.Background(), c.members, wait, 1)
		done <- err
	}()
	c.Take(t, 1) // rank 1 holds its answer
	require.NoError(t, c.client.Close(t.Context()))
	select {
	case err := <-done:
		require.ErrorIs(t, err, actor.ErrStopped)
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for its deadline")
	}
}

func TestCast_deadRankFailsAtOnceAndStaysExcluded_CAST4(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	waiting := make(chan error, 1)
	go func() {
		_, err := cast.Gather(t.Context(), c.members, wait, 5)
		waiting <- err
	}()
	c.Take(t, 1) // rank 5 has it and says nothing
	c.publishEnd(5)
	err := <-waiting
	require.ErrorIs(t, err, actor.ErrProcDead)
	require.ErrorContains(t, err, "asked 8 · answered 7 · failed 1 [host=1,gpu=1]")
	require.ErrorContains(t, err, "killed by signal 9")

	require.Eventually(t, func() bool { // that word may have come with the others' answers
		_, known := c.client.Members().Down(c.place.Proc(5))
		return known
	}, 10*time.Second, time.Millisecond)
	err = cast.Send(t.Context(), c.members, note, 1)
	require.ErrorIs(t, err, actor.ErrProcDead)
	require.ErrorContains(t, err, "failed 1 [host=1,gpu=1]")
	require.Len(t, c.Take(t, 7), 7)
	sum, err := cast.Reduce(t.Context(), c.members, who, actor.None{}, cast.Sum[int]())
	require.ErrorIs(t, err, actor.ErrProcDead)
	require.Equal(t, 28-5, sum)
	for range 50 {
		_, err := cast.Choose(t.Context(), c.in(t, "host=1,gpu=1:3"), who, actor.None{})
		require.NoError(t, err, "a known dead rank is not chosen")
	}
}

func TestChoose_asksAnotherRankIfTheActorHasEnded(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 2), 2)
	to, err := c.members.Target()
	require.NoError(t, err)
	for _, p := range c.procs {
		if p.ID().Rank == 0 {
			<-p.StopActor(to.Actor, "enough")
		}
	}
	for range 20 {
		rank, answer, err := cast.ChooseRank(t.Context(), c.members, who, actor.None{})
		require.NoError(t, err)
		require.Equal(t, []int{1, 1}, []int{rank, answer})
	}
	_, err = cast.Choose(t.Context(), c.in(t, "gpu=0"), who, actor.None{})
	require.ErrorIs(t, err, actor.ErrStopped)
}

func TestChoose_leavesOutTheCallerUnlessItIsAlone(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 3), 3)
	got := map[int]bool{}
	for range 60 {
		rank, err := choose.Call(testkit.Soon(t), c.members.Ref(1).Via(c.client), actor.None{})
		require.NoError(t, err)
		got[rank] = true
	}
	require.Equal(t, map[int]bool{0: true, 2: true}, got)
	to, err := c.members.Target()
	require.NoError(t, err)
	for _, p := range c.procs {
		if p.ID().Rank != 1 {
			testkit.Next(t, p.StopActor(to.Actor, "enough"))
		}
	}
	_, err = choose.Call(testkit.Soon(t), c.members.Ref(1).Via(c.client), actor.None{})
	require.ErrorIs(t, err, actor.ErrInvalid, "it is refused, and waits for nothing")
}

// A member whose death is known to the folder only by then must not hold up its host's answers.
func TestCast_deadRankDoesNotDelayItsAggregator_CAST4(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	waiting := make(chan error, 1)
	go func() {
		sum, err := cast.Reduce(t.Context(), c.members, wait, 6, cast.Sum[int]())
		require.Equal(t, 28-6, sum)
		waiting <- err
	}()
	c.Take(t, 1)
	c.publishEnd(6)
	err := <-waiting
	require.ErrorIs(t, err, actor.ErrProcDead)
	require.ErrorContains(t, err, "answered 7 · failed 1 [host=1,gpu=2] · missing 0")
}

func TestCast_reroutesAroundADeadAggregator_CAST6(t *testing.T) {
	c := newCluster(t, shape.Of("host", 40).With("gpu", 2), 2)
	waiting := make(chan error, 1)
	go func() {
		sum, err := cast.Reduce(t.Context(), c.members, wait, 6, cast.Sum[int]())
		require.Equal(t, 79*80/2-6, sum)
		waiting <- err
	}()
	c.Take(t, 1) // rank 6 folds for its host and for those under it, and hangs
	c.publishEnd(6)
	err := <-waiting
	require.ErrorContains(t, err, "asked 80 · answered 79 · failed 1 [host=3,gpu=0] · missing 0")
}

func TestReduce_foldsInRankOrderOverHosts_CAST5(t *testing.T) {
	c := newCluster(t, shape.Of("host", 3).With("gpu", 3), 3)
	for _, part := range []string{"*", "gpu=0:3:2", "host=1:3", "host=2,gpu=1"} {
		region := c.in(t, part)
		var want []string
		for _, base := range region.region.Ranks() {
			want = append(want, "r"+strconv.Itoa(base))
		}
		got, err := cast.Reduce(t.Context(), region, name, "r", concat)
		require.NoError(t, err)
		require.Equal(t, strings.Join(want, " "), got, part)
	}
}

func TestReduce_builtinReducersNeedNoDeclaration_CAST5(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	for want, by := range map[int]actor.Reducer[int]{28: cast.Sum[int](), 0: cast.Min[int](),
		7: cast.Max[int]()} {
		got, err := cast.Reduce(t.Context(), c.members, who, actor.None{}, by)
		require.NoError(t, err)
		require.Equal(t, want, got, by.Name())
	}
	all, err := cast.Reduce(t.Context(), c.in(t, "gpu=1:4:2"), odd, actor.None{}, cast.All[bool]())
	require.NoError(t, err)
	require.True(t, all)
	anyOdd, err := cast.Reduce(t.Context(), c.in(t, "gpu=0:4:2"), odd, actor.None{}, cast.Any[bool]())
	require.NoError(t, err)
	require.False(t, anyOdd)
}

func TestReduce_reducerPanicFailsEachRank(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	got, err := cast.Reduce(t.Context(), c.members, who, actor.None{}, bad)
	require.ErrorContains(t, err, "reducer bad panicked: cannot fold")
	require.ErrorContains(t, err, "failed 8 [*]")
	require.Zero(t, got)
	_, err = cast.Reduce(t.Context(), c.in(t, "gpu=0"), who, actor.None{}, bad)
	require.ErrorContains(t, err, "fold the answers of who: reducer bad panicked",
		"at the caller, when hosts have one rank each")
}

func TestReduce_refusesUndeclaredReducers(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 2), 2)
	_, err := cast.Reduce(t.Context(), c.members, who, actor.None{}, unknown)
	require.ErrorIs(t, err, actor.ErrInvalid)
	require.ErrorContains(t, err, `does not declare the reducer "unknown"`)
	_, err = cast.Reduce(t.Context(), c.members, who, actor.None{},
		actor.NewReducer("two words", func(a, _ int) (int, error) { return a, nil }))
	require.ErrorContains(t, err, `"two words"`)
	_, err = cast.Reduce(t.Context(), c.members, name, "",
		actor.NewReducer("sum", func(a, b string) (string, error) { return a + b, nil }))
	require.ErrorContains(t, err, "reducer sum folds numbers, got string")
}

func TestCast_actorCanCastToItsOwnMesh(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	want := "x0 x1 x2 x3 x4 x5 x6 x7"
	c.book.members = c.book.members.in(t, "host=1")
	got, err := relay.Call(t.Context(), c.Ref(0).Via(c.client), "x")
	require.NoError(t, err)
	require.Equal(t, want[12:], got)

	// Code beside the actor sends as its proc: its own member gets the cast without the bus.
	for rank := range 8 {
		local := c.members
		local.via = c.procs[rank]
		folded, err := cast.Reduce(t.Context(), local, name, "x", concat)
		require.NoError(t, err)
		require.Equal(t, want, folded, "from rank %d, a folder or a leaf", rank)
		all, err := cast.Gather(t.Context(), local, name, "x")
		require.NoError(t, err)
		require.Equal(t, strings.Fields(want), all.Values())
		require.NoError(t, cast.Send(t.Context(), local, note, rank))
		require.Len(t, c.Take(t, 8), 8)
	}
}

func TestCast_ofAnActorToItsOwnRankIsRefusedAtOnceExceptInGo(t *testing.T) {
	crowds(t, func(t *testing.T, c *cluster) {
		for _, part := range []string{"*", "gpu=2", "host=0"} {
			c.book.members = c.in(t, part)
			n := c.book.members.region.NumRanks()
			_, err := relay.Call(t.Context(), c.Ref(2).Via(c.client), "x")
			require.ErrorContains(t, err, "would wait for itself")
			require.ErrorContains(t, err, fmt.Sprintf("asked %d · answered %d · failed 1 [host=0,gpu=2] · missing 0", n, n-1))
			all, err := later.Call(t.Context(), c.Ref(2).Via(c.client), "x")
			require.NoError(t, err)
			require.Len(t, strings.Fields(all), n)
		}
	})
}

func TestCast_invalidArgumentsFailBeforeSending(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 2), 2)
	outside, foreign := c.members, c.members
	outside.region = shape.Of("gpu", 3).Region()
	foreign.err = context.DeadlineExceeded
	vast := c.members
	vast.place.Extent = shape.Of("gpu", 1_000_000_000)
	vast.region = vast.place.Extent.Region()
	for want, m := range map[string]members{
		"region gpu=3/1 is not in the mesh's extent gpu=2": outside,
		"has 1000000000 ranks: want at most 1048576":       vast,
		"no sender":                 {place: c.place, region: c.region},
		"context deadline exceeded": foreign,
	} {
		_, err := cast.Gather(t.Context(), m, who, actor.None{})
		require.ErrorContains(t, err, want)
		_, err = cast.Reduce(t.Context(), m, who, actor.None{}, cast.Sum[int]())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, cast.Send(t.Context(), m, note, 1), want)
		for _, r := range cast.Stream(t.Context(), m, who, actor.None{}) {
			require.ErrorContains(t, r.Err, want)
		}
	}
	_, err := cast.Choose(t.Context(), outside, who, actor.None{})
	require.ErrorContains(t, err, "is not in the mesh")
	_, err = cast.Choose(t.Context(), foreign, who, actor.None{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, cast.Send(t.Context(), c.members, actor.NewEndpoint[*member, int, int]("two words"),
		1), `"two words"`)
	require.ErrorContains(t, cast.Send(t.Context(), c.members, actor.NewEndpoint[*member, chan int, int]("note"),
		nil), "cast note")
	huge := strings.Repeat("x", 65<<20)
	_, err = cast.Gather(t.Context(), c.members, name, huge)
	require.ErrorIs(t, err, actor.ErrTooLarge)
	_, err = cast.Gather(t.Context(), c.members, name, "still here")
	require.NoError(t, err)
}

func TestCast_unknownEndpointOrActorFailsEachRank(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	absent := actor.NewEndpoint[*member, int, int]("absent")
	_, err := cast.Gather(t.Context(), c.members, absent, 1)
	require.ErrorIs(t, err, actor.ErrNoEndpoint)
	_, err = cast.Reduce(t.Context(), c.members, absent, 1, cast.Sum[int]())
	require.ErrorIs(t, err, actor.ErrNoEndpoint)
	require.ErrorContains(t, err, "failed 8 [*]")
}

func TestForeign_eachRankRepliesWithItsRank(t *testing.T) {
	t.Parallel()
	c := newCluster(t, twoByFour(), 4)
	b := bustest.Open(t, c.server)
	space := c.client.Space()
	for where, want := range map[string]string{"_-_": "0 1 2 3 4 5 6 7", "1-_": "4 5 6 7",
		"_-2": "2 6", "1-3": "7"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			var got []string
			ask := bus.Msg{Subject: space.Cast(c.place.Mesh, "members", "name", where, subjects.Anon()),
				Data: []byte(`"n"`)}
			for m, err := range b.Control().RequestMany(t.Context(), ask, time.Second) {
				require.NoError(t, err)
				rank := m.Header.Get(actor.HeaderRank)
				require.JSONEq(t, `"n`+rank+`"`, string(m.Data))
				require.Equal(t, "application/json", m.Header.Get(actor.HeaderContentType))
				got = append(got, rank)
			}
			slices.Sort(got)
			require.Equal(t, want, strings.Join(got, " "))
		})
	}
	ask := bus.Msg{Subject: space.Cast(c.place.Mesh, "members", "name", "1-3", subjects.Anon()),
		Data: []byte(`{"n":`)}
	answer, err := b.Control().Request(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, "400", answer.Header.Get(actor.HeaderErrorCode))
	require.Equal(t, "7", answer.Header.Get(actor.HeaderRank))
}

func TestRouter_dropsMalformedCasts(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 2), 2)
	b := bustest.Open(t, c.server)
	subject := c.client.Space().Cast(c.place.Mesh, "members", "note", "_", c.client.Sender())
	for _, data := range [][]byte{{0}, {0, 1, 4}, {0, 1, 1, 1, 0, 0, 0, 0, 0}, {0, 1, 4, 1, 0, 0, 0, 0, 1, 0xff},
		{0, 1, 4, 1, 0, 0, 0, 0, 1, 0xa0}} {
		require.NoError(t, b.Data().Publish(subject, data))
	}
	require.NoError(t, b.Data().Flush(t.Context()))
	all, err := cast.Gather(t.Context(), c.members, who, actor.None{})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, all.Values())
}
