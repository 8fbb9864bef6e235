package actor_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
)

// ranks are actors of colocated procs, each with the same name.
type ranks struct {
	procs  []*actor.Proc
	handle func(ctx *actor.Context, rank, n int) (int, error)
}

type ranked struct {
	*ranks
	rank int
}

const rankedName = "ranked"

var (
	rankedType = actor.NewType[*ranked, int]("ranked")
	visit      = actor.NewEndpoint[*ranked, int, int]("visit")
)

// newRanks starts n ranks in one process, which handle by a function.
func newRanks(t *testing.T, n int, handle func(ctx *actor.Context, rank, n int) (int, error)) *ranks {
	t.Helper()
	rs := &ranks{handle: handle}
	visited := func(r *ranked, ctx *actor.Context, n int) (int, error) { return rs.handle(ctx, r.rank, n) }
	def := rankedType.Define(
		func(_ *actor.Context, rank int) (*ranked, error) { return &ranked{rs, rank}, nil },
		visit.Handle(visited))
	for rank := range n {
		if rank == 0 {
			rs.procs = append(rs.procs, alone(t, def))
		} else {
			rs.procs = append(rs.procs, row(t, rs.procs[0], uint32(rank), def))
		}
		require.NoError(t, rs.spawn(t.Context(), rank))
	}
	return rs
}

func (rs *ranks) spawn(ctx context.Context, rank int) error {
	_, err := rs.procs[rank].Spawn(ctx, actor.SpawnSpec{Type: "ranked", Name: rankedName, Params: rank})
	return err
}

// cast sends n to some ranks. answer is nil for a cast without answers.
func (rs *ranks) cast(t *testing.T, endpoint string, n int, answer func(rank int, a actor.Answer), to ...int) {
	t.Helper()
	raw, err := wire.Marshal(n)
	require.NoError(t, err)
	recipients := make([]actor.LocalRecipient, len(to))
	for i, rank := range to {
		recipients[i] = actor.LocalRecipient{Proc: rs.procs[rank], View: rank}
	}
	rs.procs[0].Casts().DeliverAll(&actor.Delivery{Actor: rankedName, Port: endpoint,
		From: rs.procs[0].ID().Actor("client"), Raw: raw, Answer: answer}, recipients)
}

// all are the first n ranks.
func all(n int) (some []int) {
	for rank := range n {
		some = append(some, rank)
	}
	return some
}

// outcome is the answer of one rank.
type outcome struct {
	rank int
	actor.Answer
}

func TestCasts_blockedHandlerDelaysNoOtherRank(t *testing.T) {
	const n, stuck = 512, 100
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		rs := newRanks(t, n, func(_ *actor.Context, rank, m int) (int, error) {
			if rank == stuck {
				<-release
			}
			return rank + m, nil
		})
		answers := make(chan outcome, n)
		rs.cast(t, "visit", 7, func(rank int, a actor.Answer) { answers <- outcome{rank, a} }, all(n)...)
		synctest.Wait() // no time passes
		require.Len(t, answers, n-1)
		for range n - 1 {
			one := <-answers
			require.NotEqual(t, stuck, one.rank)
			require.Equal(t, actor.Answer{Value: one.rank + 7}, one.Answer)
		}
		close(release)
		require.Equal(t, stuck, (<-answers).rank)
	})
}

func TestCasts_handlersThatAllWaitRunAtOnce(t *testing.T) {
	const n = 512
	synctest.Test(t, func(t *testing.T) {
		arrived, answered := 0, 0
		var mu sync.Mutex
		release := make(chan struct{})
		rs := newRanks(t, n, func(_ *actor.Context, rank, _ int) (int, error) {
			mu.Lock()
			arrived++
			mu.Unlock()
			<-release
			return rank, nil
		})
		rs.cast(t, "visit", 0, func(int, actor.Answer) {
			mu.Lock()
			answered++
			mu.Unlock()
		}, all(n)...)
		synctest.Wait() // no time passes
		require.Equal(t, n, arrived)
		close(release)
		synctest.Wait()
		require.Equal(t, n, answered)
	})
}

func TestCasts_handlersThatDoNotWaitShareFewGoroutines(t *testing.T) {
	const n = 512
	synctest.Test(t, func(t *testing.T) {
		rs := newRanks(t, n, func(_ *actor.Context, rank, _ int) (int, error) { return rank, nil })
		time.Sleep(3 * time.Second) // the workers that ran constructors have ended
		synctest.Wait()
		require.NotContains(t, stacks(), workerFrame)
		rs.cast(t, "visit", 0, func(int, actor.Answer) {}, all(n)...)
		synctest.Wait()
		few := strings.Count(stacks(), workerFrame)
		require.Positive(t, few, "an idle worker is kept for a moment")
		require.Less(t, few, n/8)
	})
}

// A handler that has ended its goroutine does not end other ranks with it.
func TestCasts_endedGoroutineDelaysNoOtherRank_ACT2(t *testing.T) {
	const n = 100
	synctest.Test(t, func(t *testing.T) {
		rs := newRanks(t, n, func(_ *actor.Context, rank, _ int) (int, error) {
			switch rank % 10 {
			case 3:
				runtime.Goexit()
			case 7:
				panic("seven")
			}
			return rank, nil
		})
		answers := make(chan outcome, n)
		rs.cast(t, "visit", 0, func(rank int, a actor.Answer) { answers <- outcome{rank, a} }, all(n)...)
		synctest.Wait() // no time passes
		require.Len(t, answers, n)
		for range n {
			if one := <-answers; one.rank%10 == 3 || one.rank%10 == 7 {
				require.ErrorIs(t, one.Err, actor.ErrPanic)
			} else {
				require.NoError(t, one.Err)
			}
		}
	})
}

func TestCasts_handlersThatWorkUseTheOtherCPUs(t *testing.T) {
	most := int64(min(2, runtime.GOMAXPROCS(0)))
	var working atomic.Int64
	rs := newRanks(t, 2, func(_ *actor.Context, rank, _ int) (int, error) {
		working.Add(1)
		for working.Load() < most { // it works until another one works, too
			runtime.Gosched()
		}
		return rank, nil
	})
	var both sync.WaitGroup
	both.Add(2)
	rs.cast(t, "visit", 0, func(int, actor.Answer) { both.Done() }, 0, 1)
	both.Wait()
}
