package cast

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// anyThrottle draws limits with an effect on a small mesh.
func anyThrottle(t *rapid.T) Throttle {
	return Throttle{
		BatchSize: rapid.IntRange(0, 5).Draw(t, "batch"), PerHost: rapid.IntRange(0, 3).Draw(t, "per host"),
		Canary:        rapid.Bool().Draw(t, "canary"),
		SamplePercent: rapid.SampledFrom([]float64{0, 0.1, 10, 33.3, 50, 100}).Draw(t, "percent"),
		Seed:          rapid.Uint64().Draw(t, "seed"),
	}
}

// firstFit is the oracle of a plan: it puts each rank into the first batch with room.
func firstFit(th Throttle, host, index func(rank int) int, ranks []int) (batches [][]int) {
	for i, rank := range ranks {
		at := slices.IndexFunc(batches, func(batch []int) bool {
			neighbours := 0
			for _, other := range batch {
				if host(other) == host(rank) {
					neighbours++
				}
				if th.OnePer != "" && index(other) == index(rank) {
					return false
				}
			}
			return !(th.Canary && batch[0] == ranks[0]) && (th.BatchSize == 0 || len(batch) < th.BatchSize) &&
				(th.PerHost == 0 || neighbours < th.PerHost)
		})
		if i == 0 || at < 0 {
			batches = append(batches, []int{rank})
		} else {
			batches[at] = append(batches[at], rank)
		}
	}
	return batches
}

func TestThrottle_planAsksEachRankOnceWithinLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyExtent(t)
		r := anyRegion(t, e)
		p := Placement{Extent: e, PerHost: rapid.IntRange(1, 6).Draw(t, "ranks of a host")}
		th := anyThrottle(t)
		dims := e.Dims()
		dim := rapid.IntRange(-1, len(dims)-1).Draw(t, "one per")
		if dim >= 0 {
			th.OnePer = dims[dim].Label
		}
		to := Target{Placement: p, Region: r}
		got := th.plan(to)
		base := func(rank int) int {
			base, err := r.BaseRank(rank)
			require.NoError(t, err)
			return base
		}
		index := func(rank int) int {
			at, err := e.Point(base(rank))
			require.NoError(t, err)
			return at.Coords()[dim]
		}
		require.Equal(t, firstFit(th, func(rank int) int { return p.hostOf(base(rank)) }, index,
			th.sample(to)), got)
		if th.Canary {
			require.Len(t, got[0], 1)
		}
	})
}

// A walk through all ranks for each batch would take minutes.
func TestThrottle_planningStaysFastFor100kRanks(t *testing.T) {
	e := shape.Of("host", 12_500).With("gpu", 8)
	begun := time.Now()
	for _, th := range []Throttle{{OnePer: "gpu"}, {OnePer: "gpu", PerHost: 1}, {BatchSize: 8, OnePer: "gpu"}} {
		asked := 0
		for _, batch := range th.plan(Target{Placement: Placement{Extent: e, PerHost: 8}, Region: e.Region()}) {
			asked += len(batch)
		}
		require.Equal(t, e.NumRanks(), asked)
	}
	require.Less(t, time.Since(begun), 20*time.Second)
}

func TestThrottle_smallerPercentIsASubsetForTheSameSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyExtent(t)
		region := anyRegion(t, e)
		r := Target{Region: region}
		seed := rapid.Uint64().Draw(t, "seed")
		small, large := rapid.Float64Range(0.1, 100).Draw(t, "small"), 0.0
		large = rapid.Float64Range(small, 100).Draw(t, "large")
		few := Throttle{SamplePercent: small, Seed: seed}.sample(r)
		more := Throttle{SamplePercent: large, Seed: seed}.sample(r)
		share := float64(region.NumRanks()) * small / 100
		require.True(t, float64(len(few)) > share-0.001 && float64(len(few)) < share+1, "%d of %v", len(few), share)
		require.Equal(t, few, Throttle{SamplePercent: small, Seed: seed}.sample(r), "reproducible")
		require.True(t, slices.IsSorted(few))
		for _, rank := range few {
			require.Contains(t, more, rank)
		}
		require.Len(t, Throttle{SamplePercent: 100}.sample(r), region.NumRanks())
		require.Len(t, Throttle{}.sample(r), region.NumRanks())
	})
	r := Target{Region: shape.Of("gpu", 1000).Region()}
	require.Equal(t, []int{587, 806, 928}, Throttle{SamplePercent: 0.3, Seed: 42}.sample(r),
		"the same in every version")
	require.NotEqual(t,
		Throttle{SamplePercent: 10, Seed: 1}.sample(r), Throttle{SamplePercent: 10, Seed: 2}.sample(r))
}

func TestThrottle_percentRoundsUpToAtLeastOne(t *testing.T) {
	for percent, want := range map[float64]int{0: 10_000, math.SmallestNonzeroFloat64: 1, 0.07: 7, 0.071: 8,
		29: 2900, 100: 10_000} {
		r := shape.Of("gpu", 10_000).Region()
		batches := Throttle{SamplePercent: percent,
			Canary: true}.plan(Target{Placement: Placement{Extent: r.Extent(), PerHost: 8}, Region: r})
		got := 0
		for _, batch := range batches {
			got += len(batch)
		}
		require.Equal(t, want, got, "%v per cent", percent)
	}
}

func TestThrottle_refusesInvalidOptions(t *testing.T) {
	for want, th := range map[string]Throttle{
		"a batch of -1: want 0 or more": {BatchSize: -1}, "-2 per host": {PerHost: -2},
		"a batch delay of -1s": {BatchDelay: -time.Second},
		"a timeout of -1s":     {Timeout: -time.Second}, "max failures -3": {MaxFailures: -3},
		"a sample of -1%: want 0 to 100": {SamplePercent: -1}, "a sample of 100.5%": {SamplePercent: 100.5},
		"a sample of NaN%": {SamplePercent: math.NaN()},
	} {
		require.ErrorIs(t, th.Err(), actor.ErrInvalid)
		require.ErrorContains(t, th.Err(), want)
	}
	require.NoError(t, Throttle{}.Err())
}

// script is ranks with prepared answers, without a bus.
type script struct {
	bad   []int           // fail
	mute  []int           // say nothing
	asked [][]int         // batch by batch
	at    []time.Time     // when
	block func(int) error // before a batch; its error is why nobody of it can be asked
}

func (s *script) cast(r *rollout) func(context.Context, shape.Ranks, func() bool) error {
	return func(ctx context.Context, batch shape.Ranks, settled func() bool) error {
		if s.block != nil {
			if err := s.block(len(s.asked)); err != nil {
				return err
			}
		}
		s.asked, s.at = append(s.asked, slices.Collect(batch.All())), append(s.at, time.Now())
		for rank := range batch.All() {
			switch {
			case slices.Contains(s.bad, rank):
				r.answer(rank, actor.Answer{Err: errors.New("not today")})
			case slices.Contains(s.mute, rank):
			default:
				r.answer(rank, (&operation{rollout: r}).open(actor.Answer{Value: rank}))
			}
		}
		if r.pending > 0 {
			<-ctx.Done()
			r.expire(silenceError(ctx))
		}
		if !settled() {
			return errAbandoned
		}
		return nil
	}
}

// scripted is a throttled cast to the eight ranks of a script.
func scripted(th Throttle, s *script) *rollout {
	to := eight()
	to.throttle = &th
	r := newRollout(to, castRequest{mode: modeFold})
	r.cast = s.cast(r)
	return r
}

// play runs such a cast.
func play(ctx context.Context, th Throttle, s *script) (*rollout, error) {
	r := scripted(th, s)
	return r, r.run(ctx, func(int) bool { return true })
}

// inOrder are the values in rank order.
func inOrder(r *rollout) (all []int) {
	for a := range r.values() {
		all = append(all, a.Value.(int))
	}
	return all
}

func TestThrottle_pausesBetweenBatchesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, s := time.Now(), &script{}
		r, err := play(t.Context(), Throttle{BatchSize: 3, BatchDelay: time.Minute}, s)
		require.NoError(t, err)
		require.NoError(t, r.coverageError())
		require.Equal(t, [][]int{{0, 1, 2}, {3, 4, 5}, {6, 7}}, s.asked)
		require.Equal(t, []time.Time{start, start.Add(time.Minute), start.Add(2 * time.Minute)}, s.at)
		require.Equal(t, 2*time.Minute, time.Since(start), "none after the last")
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, inOrder(r))
	})
}

func TestThrottle_batchTimesOutAndTheNextGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r, err := play(t.Context(), Throttle{BatchSize: 4, Timeout: 7 * time.Second}, &script{mute: []int{2}})
		require.NoError(t, err)
		require.Equal(t, 7*time.Second, time.Since(start))
		require.ErrorIs(t, r.coverageError(), context.DeadlineExceeded)
		require.ErrorContains(t, r.coverageError(),
			"asked 8 · answered 7 · failed 0 · missing 1 [host=0,gpu=2]; rank 2")
		start = time.Now()
		_, err = play(t.Context(), Throttle{}, &script{mute: []int{2}})
		require.NoError(t, err)
		require.Equal(t, actor.DefaultDeadline, time.Since(start))
	})
}

func TestThrottle_batchTimeoutDuringSendCountsAsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		r := scripted(Throttle{BatchSize: 4, Timeout: time.Second}, s)
		cast := r.cast
		r.cast = func(ctx context.Context, batch shape.Ranks, settled func() bool) error {
			if len(s.asked) > 0 {
				return cast(ctx, batch, settled)
			}
			s.asked = append(s.asked, nil)
			<-ctx.Done()
			return silenceError(ctx)
		}
		require.NoError(t, r.run(t.Context(), func(int) bool { return true }))
		require.ErrorContains(t, r.coverageError(), "asked 8 · answered 4 · failed 0 · missing 4 [host=0,gpu=*]")
	})
}

func TestThrottle_failedCanaryStopsTheCast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []*script{{bad: []int{0}}, {mute: []int{0}}} {
			r, err := play(t.Context(), Throttle{Canary: true}, s)
			require.NoError(t, err)
			require.Equal(t, [][]int{{0}}, s.asked)
			require.ErrorContains(t, r.coverageError(), "asked 1 · answered 0 ·")
			require.ErrorContains(t, r.coverageError(), "· not asked 7 [")
			require.ErrorIs(t, r.coverageError(), ErrNotAsked)
			require.ErrorContains(t, r.coverageError(), "; not asked: the canary failed: no")
		}
		s := &script{bad: []int{1}}
		r, err := play(t.Context(), Throttle{Canary: true}, s)
		require.NoError(t, err)
		require.Len(t, s.asked, 2, "others may fail")
		require.ErrorContains(t, r.coverageError(), "answered 7 · failed 1")
	})
}

func TestThrottle_stopsAtMaxFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{bad: []int{1, 4}, mute: []int{2}}
		r, err := play(t.Context(), Throttle{BatchSize: 2, MaxFailures: 2}, s)
		require.NoError(t, err)
		require.Equal(t, [][]int{{0, 1}, {2, 3}}, s.asked)
		var partial *CoverageError
		require.ErrorAs(t, r.coverageError(), &partial)
		c := partial.Coverage
		require.Equal(t, "asked 4 · answered 2 · failed 1 [host=0,gpu=1] · missing 1 [host=0,gpu=2] · not "+
			"asked 4 [host=1,gpu=*]", c.String())
		require.Equal(t, "host=1,gpu=*", c.NotAskedRegion())
		require.ErrorContains(t, partial,
			"not asked: stopped after 2 failures, the last: no answer within the deadline")
		require.False(t, c.Complete())
		require.Equal(t, []int{0, 3}, inOrder(r))

		last, err := play(t.Context(), Throttle{BatchSize: 4, MaxFailures: 1}, &script{bad: []int{7}})
		require.NoError(t, err)
		require.Empty(t, last.coverage().NotAsked, "a failure in the last batch stops nothing")
	})
}

func TestThrottle_endsAtOnceWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, th := range []Throttle{{BatchSize: 4, BatchDelay: time.Hour}, {BatchSize: 4}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start, s := time.Now(), &script{}
			if th.BatchDelay == 0 {
				s.mute = []int{1}
			}
			r, err := play(ctx, th, s)
			cancel()
			require.NoError(t, err)
			require.Equal(t, time.Second, time.Since(start))
			require.ErrorIs(t, r.coverageError(), context.DeadlineExceeded)
			require.ErrorContains(t, r.coverageError(), "not asked 4 [host=1,gpu=*]")
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r, err := play(ctx, Throttle{BatchSize: 7, BatchDelay: time.Hour}, &script{})
		require.NoError(t, err)
		require.ErrorIs(t, r.coverageError(), context.Canceled)
		require.ErrorContains(t, r.coverageError(), "not asked: the cast ended before: context canceled")
	})
}

func TestThrottle_invalidCastStopsIt(t *testing.T) {
	broken := errors.New("no bus")
	_, err := play(t.Context(), Throttle{BatchSize: 2}, &script{block: func(int) error { return broken }})
	require.ErrorIs(t, err, broken, "nobody was asked")
	r, err := play(t.Context(), Throttle{BatchSize: 2}, &script{block: func(batches int) error {
		if batches == 2 {
			return broken
		}
		return nil
	}})
	require.NoError(t, err)
	require.ErrorIs(t, r.coverageError(), broken)
	require.ErrorContains(t, r.coverageError(),
		"asked 4 · answered 4 · failed 0 · missing 0 · not asked 4 [host=1,gpu=*]; not asked: no bus")
}

func TestThrottle_undecodableReplyCountsAsFailure(t *testing.T) {
	r := scripted(Throttle{BatchSize: 4, MaxFailures: 4}, &script{})
	r.request.open = openAs[string] // of numbers
	require.NoError(t, r.run(t.Context(), func(int) bool { return true }))
	require.ErrorIs(t, r.coverageError(), actor.ErrBadMessage)
	require.ErrorContains(t, r.coverageError(), "failed 4 [host=0,gpu=*] · missing 0 · not asked 4")
}

func TestThrottle_asksOneRankPerIndexAtATime(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 3)
	p := Placement{Extent: e, PerHost: 3}
	require.Equal(t, [][]int{{0, 3}, {1, 4}, {2, 5}},
		Throttle{OnePer: "host"}.plan(Target{Placement: p, Region: e.Region()}))
	require.Equal(t, [][]int{{0, 1, 2}, {3, 4, 5}},
		Throttle{OnePer: "gpu"}.plan(Target{Placement: p, Region: e.Region()}))
	require.NoError(t, Throttle{OnePer: "gpu"}.checkDim(e))
	require.ErrorContains(t, Throttle{OnePer: "rack"}.checkDim(e),
		`one per "rack": want a dimension of the mesh: host, gpu`)
}
