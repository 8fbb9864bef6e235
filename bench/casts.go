package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bench/casts"
	"github.com/castnet-io/castnet/bench/server"
)

const (
	fanoutName = "nats-fanout"
	naiveName  = "nats-publish-each"

	inFlightSuffix = "-inflight8" // of casts: casts.MaxInFlight

	smallBody = 64 // bytes, of a message and of an answer

	mostRanks = 4096
	// more than the procs that hosts run in a process
	simulatedRanks = 100_000

	fewRanks = 64 // that mostRanks are compared with

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
	return slices.Concat(castFamiliesOn(false), castFamiliesOn(true), growthFamilies())
}

// castFamiliesOn are those on a server in a process of its own, or, embedded, in the caster's.
func castFamiliesOn(embedded bool) []family {
	var all []family
	add := func(name string, rate bool, on func(context.Context, *rig) (contest, error)) {
		suffix := ""
		if embedded {
			suffix = embeddedSuffix
		}
		rows := []row{{name + suffix, "us", false}}
		if rate {
			rows = append(rows, row{name + inFlightSuffix + suffix, "casts/s", true})
		}
		all = append(all, family{rows, onServer(embedded, on)})
	}
	for _, v := range []verb{
		{"reduce", casts.Caster.Reduce, true}, {"gather", casts.Caster.Gather, true},
		{"post", casts.Caster.Post, false},
	} {
		for _, ranks := range []int{1, 8, fewRanks, 512, mostRanks} {
			add(fmt.Sprintf("cast-%s-%d", v.name, ranks), v.rate, castContest(v, ranks))
		}
	}
	for _, b := range largeBodies {
		add(fmt.Sprintf("cast-reduce-%d-%s", fewRanks, b.name), false, largeContest(verb{cast: casts.Caster.Reduce}, b))
	}
	for _, b := range largeBodies[:2] { // plain NATS has no reply of 16 MiB
		add(fmt.Sprintf("cast-gather-%d-%s", fewRanks, b.name), false, largeContest(verb{cast: casts.Caster.Gather}, b))
	}
	if !embedded { // they take 6 GB
		add(fmt.Sprintf("cast-reduce-%d", simulatedRanks), false, simulatedContest)
	}
	add(fmt.Sprintf("cast-reduce-%d-naive", mostRanks), false, naiveContest)
	add(fmt.Sprintf("cast-slice-2-of-%d", mostRanks), false, sliceContest)
	return all
}

// castContest measures ours against the least that NATS can do it with.
func castContest(v verb, ranks int) func(context.Context, *rig) (contest, error) {
	return func(ctx context.Context, r *rig) (contest, error) {
		ours, base, err := bothTo(ctx, r, fanoutRole, ranks)
		if err != nil {
			return nil, err
		}
		return against(fanoutName, v.side(r, ours, ranks), v.side(r, base, ranks)), nil
	}
}

// largeBody is the size of the body of a cast, and how many casts of it a repeat has.
type largeBody struct {
	name        string
	size, casts int
}

var largeBodies = []largeBody{{"64KiB", 64 << 10, 200}, {"1MiB", 1 << 20, 20}, {"16MiB", 16 << 20, 3}}

// largeContest measures casts of large bodies, or such answers, one at a time.
func largeContest(v verb, b largeBody) func(context.Context, *rig) (contest, error) {
	return func(ctx context.Context, r *rig) (contest, error) {
		ours, base, err := bothTo(ctx, r, fanoutRole, fewRanks)
		if err != nil {
			return nil, err
		}
		of := func(c casts.Caster) side {
			return castLatencyOf(max(b.casts/r.shrink, 1), b.size,
				func(ctx context.Context, m []byte) error { return v.cast(c, ctx, m) })
		}
		return against(fanoutName, of(ours), of(base)), nil
	}
}

func simulatedContest(ctx context.Context, r *rig) (contest, error) {
	ranks := max(simulatedRanks/r.shrink/8, 1) * 8
	return castContest(verb{cast: casts.Caster.Reduce}, ranks)(ctx, r)
}

func naiveContest(ctx context.Context, r *rig) (contest, error) {
	ours, base, err := bothTo(ctx, r, naiveRole, mostRanks)
	if err != nil {
		return nil, err
	}
	n := r.castSamples(mostRanks)
	return against(naiveName, castLatency(n, ours.Reduce), castLatency(n, base.ReduceNaive)), nil
}

func sliceContest(ctx context.Context, r *rig) (contest, error) {
	ours, err := casterTo(ctx, r, ranksRole, spread{mostRanks, casts.Processes, 1}, casts.NewOurs)
	if err != nil {
		return nil, err
	}
	return against("call", castLatency(r.samples, ours.GatherTwo), castLatency(r.samples, ours.CallOne)), nil
}

// bothTo starts castnet's ranks and those of plain NATS, and who casts to each.
func bothTo(ctx context.Context, r *rig, baseRole string, ranks int) (*casts.Ours, *casts.Raw, error) {
	s := spread{ranks, casts.Processes, 1}
	ours, err := casterTo(ctx, r, ranksRole, s, casts.NewOurs)
	if err != nil {
		return nil, nil, err
	}
	base, err := casterTo(ctx, r, baseRole, s, casts.NewRaw)
	return ours, base, err
}

// spread is ranks over processes of castnet, of which several may share one of the system.
type spread struct{ ranks, processes, together int }

// casterTo starts the processes of the ranks, in a role, and a caster to them.
func casterTo[C casts.Caster](
	ctx context.Context, r *rig, role string, over spread,
	open func(context.Context, *server.Server, casts.Share) (C, error),
) (c C, err error) {
	shares, err := casts.Spread(over.ranks, over.processes)
	if err != nil {
		return c, err
	}
	var all []launch
	for some := range slices.Chunk(shares, over.together) {
		var texts []string
		for _, s := range some {
			texts = append(texts, s.String())
		}
		all = append(all, launch{role, []string{sharesEnv + "=" + strings.Join(texts, shareSeparator)}})
	}
	if _, err := r.launch(ctx, all...); err != nil {
		return c, err
	}
	c, err = open(ctx, r.server, shares[0])
	if err == nil {
		r.later(c.Close)
	}
	return c, err
}

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
	return castLatencyOf(n, smallBody, do)
}

// castLatencyOf is that of casts of a size in bytes.
func castLatencyOf(n, size int, do func(context.Context, []byte) error) side {
	m := casts.Message(size)
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
				m := casts.Message(smallBody)
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
