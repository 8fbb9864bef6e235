package main

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/bench/casts"
)

// ranksInEach is how many ranks each process has.
const ranksInEach = 8

// growth is casts to more processes than there are CPUs.
type growth struct {
	processes int
	together  int // of castnet in one of the system: simulated hosts, with connections of their own
}

// growthFamilies are those whose rows show what more ranks and more processes cost.
func growthFamilies() []family {
	all := []family{{[]row{{"cast-per-rank-growth", "ns", false}}, onServer(false, ranksContest)}}
	for _, g := range []growth{{64, 1}, {128, 128}, {1024, 128}} {
		name := fmt.Sprintf("cast-reduce-%d-in-%d", g.processes*ranksInEach, g.processes)
		all = append(all, family{[]row{{name, "us", false}}, onServer(false, g.contest(name))})
	}
	return all
}

// ranksContest measures a cast to many ranks against one to few, by the rank.
func ranksContest(ctx context.Context, r *rig) (contest, error) {
	var sides []side
	for _, ranks := range []int{mostRanks, fewRanks} {
		ours, err := casterTo(ctx, r, ranksRole, spread{ranks, casts.Processes, 1}, casts.NewOurs)
		if err != nil {
			return nil, err
		}
		sides = append(sides, perRank(castLatency(r.castSamples(ranks), ours.Reduce), ranks))
	}
	return against(fmt.Sprintf("ours-at-%d", fewRanks), sides[0], sides[1]), nil
}

// contest measures castnet against the fan-out, and notes its memory.
func (g growth) contest(name string) func(context.Context, *rig) (contest, error) {
	return func(ctx context.Context, r *rig) (contest, error) {
		processes := max(g.processes/r.shrink, casts.Processes)
		over := spread{processes * ranksInEach, processes, g.together}
		before, started := heap(), len(r.children)
		ours, err := casterTo(ctx, r, ranksRole, over, casts.NewOurs)
		if err != nil {
			return nil, err
		}
		if err := patiently(ctx, casts.Message(smallBody), ours.Reduce); err != nil {
			return nil, err
		}
		perProcess := (float64(heap()) - float64(before)) / kibi / float64(processes)
		resident := 0
		for _, c := range r.children[started:] {
			resident += c.resident()
		}
		fmt.Fprintf(r.notes, "%s: %d KiB of memory for each rank with its share of its process; the caster has %.1f "+
			"KiB of heap for each process\n", name, resident*kibi/over.ranks, perProcess)
		base, err := casterTo(ctx, r, fanoutRole, over, casts.NewRaw)
		if err != nil {
			return nil, err
		}
		n := r.castSamples(over.ranks)
		return against(fanoutName, castLatency(n, ours.Reduce), castLatency(n, base.Reduce)), nil
	}
}

// kibi is the bytes of a KiB, and the KiB of a MiB.
const kibi = 1024

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
