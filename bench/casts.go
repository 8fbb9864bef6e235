package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bench/casts"
	"github.com/castnet-io/castnet/bench/server"
)

const (
	fanoutName = "nats-fanout"
	naiveName  = "nats-publish-each"

	inFlightSuffix = "-8" // of casts: casts.MaxInFlight

	mostRanks = 4096
	fewRanks  = 64 // that mostRanks are compared with

	// fullSamples is how many ranks still get all of -samples; more of them get fewer, in proportion.
	fullSamples = 256
)

// verb is what a row casts with.
type verb struct {
	name string
	cast func(casts.Caster, context.Context, []byte) error
	rate bool // it has a row of casts per second, too
}

// castFamilies are those whose rows compare casts to ranks that share processes.
func castFamilies() []family {
	const us, ns = "us", "ns"
	var all []family
	for _, v := range []verb{
		{"reduce", casts.Caster.Reduce, true}, {"gather", casts.Caster.Gather, true}, {"post", casts.Caster.Post, false},
	} {
		for _, ranks := range []int{1, 8, fewRanks, 512, mostRanks} {
			rows := []row{{fmt.Sprintf("cast-%s-%d", v.name, ranks), us, false}}
			if v.rate {
				rows = append(rows, row{rows[0].name + inFlightSuffix, "casts/s", true})
			}
			all = append(all, family{rows, onServer(castContest(v, ranks))})
		}
	}
	return append(all,
		family{[]row{{fmt.Sprintf("cast-reduce-%d-naive", mostRanks), us, false}}, onServer(naiveContest)},
		family{[]row{{fmt.Sprintf("cast-slice-2-of-%d", mostRanks), us, false}}, onServer(sliceContest)},
		family{[]row{{"cast-per-rank-growth", ns, false}}, onServer(growthContest)})
}

// castContest measures ours against the least that NATS can do it with.
func castContest(v verb, ranks int) func(context.Context, *rig) (contest, error) {
	return func(ctx context.Context, r *rig) (contest, error) {
		shares, err := casts.Spread(ranks)
		if err != nil {
			return nil, err
		}
		ours, err := oursTo(ctx, r, shares)
		if err != nil {
			return nil, err
		}
		base, err := rawTo(ctx, r, fanoutRole, shares)
		if err != nil {
			return nil, err
		}
		return against(fanoutName, v.side(r, ours, ranks), v.side(r, base, ranks)), nil
	}
}

func naiveContest(ctx context.Context, r *rig) (contest, error) {
	shares, err := casts.Spread(mostRanks)
	if err != nil {
		return nil, err
	}
	ours, err := oursTo(ctx, r, shares)
	if err != nil {
		return nil, err
	}
	base, err := rawTo(ctx, r, naiveRole, shares)
	if err != nil {
		return nil, err
	}
	n := r.castSamples(mostRanks)
	return against(naiveName, castLatency(n, ours.Reduce), castLatency(n, base.ReduceNaive)), nil
}

func sliceContest(ctx context.Context, r *rig) (contest, error) {
	shares, err := casts.Spread(mostRanks)
	if err != nil {
		return nil, err
	}
	ours, err := oursTo(ctx, r, shares)
	if err != nil {
		return nil, err
	}
	return against("call", castLatency(r.samples, ours.GatherTwo), castLatency(r.samples, ours.CallOne)), nil
}

// growthContest measures ours with many ranks against ours with few.
func growthContest(ctx context.Context, r *rig) (contest, error) {
	var sides []side
	for _, ranks := range []int{mostRanks, fewRanks} {
		shares, err := casts.Spread(ranks)
		if err != nil {
			return nil, err
		}
		ours, err := oursTo(ctx, r, shares)
		if err != nil {
			return nil, err
		}
		sides = append(sides, perRank(castLatency(r.castSamples(ranks), ours.Reduce), ranks))
	}
	return against(fmt.Sprintf("ours-at-%d", fewRanks), sides[0], sides[1]), nil
}

// oursTo starts castnet's ranks and who casts to them.
func oursTo(ctx context.Context, r *rig, shares []casts.Share) (*casts.Ours, error) {
	if err := r.startShares(ctx, ranksRole, shares); err != nil {
		return nil, err
	}
	c, err := casts.NewOurs(ctx, r.server(), shares[0])
	if err == nil {
		r.later(c.Close)
	}
	return c, err
}

// rawTo starts ranks of plain NATS and who casts to them.
func rawTo(ctx context.Context, r *rig, role string, shares []casts.Share) (*casts.Raw, error) {
	if err := r.startShares(ctx, role, shares); err != nil {
		return nil, err
	}
	c, err := casts.NewRaw(ctx, r.server(), shares[0])
	if err == nil {
		r.later(c.Close)
	}
	return c, err
}

// startShares starts a process for each share.
func (r *rig) startShares(ctx context.Context, role string, shares []casts.Share) error {
	var all []launch
	for _, s := range shares {
		all = append(all, launch{role, []string{shareEnv + "=" + s.String()}})
	}
	_, err := r.launch(ctx, all...)
	return err
}

// server is where the rig's server is.
func (r *rig) server() server.Options { return server.Options{URL: r.url, Token: r.token} }

// castSamples is how many casts a repeat has.
func (s settings) castSamples(ranks int) int {
	return max(s.samples*fullSamples/max(ranks, fullSamples), 1)
}

// side measures the verb one at a time, and then several in flight when that is a row, too.
func (v verb) side(r *rig, c casts.Caster, ranks int) side {
	do := func(ctx context.Context, m []byte) error { return v.cast(c, ctx, m) }
	n := r.castSamples(ranks)
	one := castLatency(n, do)
	if !v.rate {
		return one
	}
	many := castRate(n, do)
	return func(ctx context.Context) ([]float64, error) {
		a, err := one(ctx)
		if err != nil {
			return nil, err
		}
		b, err := many(ctx)
		return slices.Concat(a, b), err
	}
}

// castLatency is the median time of n casts, one at a time, in µs.
func castLatency(n int, do func(context.Context, []byte) error) side {
	m := casts.Message()
	return latency(n, func(ctx context.Context) error { return patiently(ctx, m, do) }, 0.5)
}

// castRate is how many casts are done in a second, when each of several goroutines does n of them.
func castRate(n int, do func(context.Context, []byte) error) side {
	return func(ctx context.Context) ([]float64, error) {
		var all sync.WaitGroup
		failed := make(chan error, casts.MaxInFlight)
		start := time.Now()
		for range casts.MaxInFlight {
			all.Go(func() {
				m := casts.Message()
				for range n {
					if err := patiently(ctx, m, do); err != nil {
						failed <- err
						return
					}
				}
			})
		}
		all.Wait()
		took := time.Since(start)
		select {
		case err := <-failed:
			return nil, err
		default:
			return []float64{float64(casts.MaxInFlight*n) / took.Seconds()}, nil
		}
	}
}

// patiently bounds a cast.
func patiently(ctx context.Context, m []byte, do func(context.Context, []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return do(ctx, m)
}

// perRank is what a cast takes for each rank, in ns.
func perRank(cast side, ranks int) side {
	return func(ctx context.Context) ([]float64, error) {
		values, err := cast(ctx)
		for i := range values {
			values[i] *= float64(time.Microsecond/time.Nanosecond) / float64(ranks)
		}
		return values, err
	}
}
