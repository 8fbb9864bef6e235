package main

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/bench/casts"
)

const (
	realProcesses = 64 // on few CPUs
	ranksInEach   = 8

	manyHosts, fewHosts = 1024, 128 // simulated: some of them share a process
	hostsTogether       = 128
)

// growthFamilies are those whose rows show what more ranks and more processes cost.
func growthFamilies() []family {
	return []family{
		{[]row{{"cast-per-rank-growth", "ns", false}}, onServer(false, ranksContest)},
		{[]row{{fmt.Sprintf("cast-per-rank-%d-hosts", manyHosts), "ns", false}}, onServer(false, hostsContest)},
		{[]row{{fmt.Sprintf("cast-reduce-%d-in-%d", realProcesses*ranksInEach, realProcesses), "us", false}},
			onServer(false, processesContest)},
	}
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

// hostsContest measures a cast to many hosts against one to few, by the rank, and notes the memory.
func hostsContest(ctx context.Context, r *rig) (contest, error) {
	var sides []side
	for _, hosts := range []int{manyHosts, fewHosts} {
		hosts = max(hosts/r.shrink, casts.Processes)
		ranks := hosts * ranksInEach
		before, started := heap(), len(r.children)
		ours, err := casterTo(ctx, r, ranksRole, spread{ranks, hosts, hostsTogether}, casts.NewOurs)
		if err != nil {
			return nil, err
		}
		if err := patiently(ctx, casts.Message(smallBody), ours.Reduce); err != nil {
			return nil, err
		}
		resident := 0
		for _, c := range r.children[started:] {
			resident += c.resident()
		}
		fmt.Fprintf(r.notes, "cast-per-rank-%d-hosts: %d hosts of %d ranks: %d KiB of memory for each rank with its "+
			"share of its host; the caster has %.1f KiB of heap for each host\n", manyHosts, hosts, ranksInEach,
			resident*kibis/ranks, float64(heap()-before)/kibis/float64(hosts))
		sides = append(sides, perRank(castLatency(r.castSamples(ranks), ours.Reduce), ranks))
	}
	return against(fmt.Sprintf("ours-at-%d-hosts", fewHosts), sides[0], sides[1]), nil
}

// kibis are the KiB of a MiB, and the bytes of a KiB.
const kibis = 1024

// processesContest measures casts to more processes than there are CPUs.
func processesContest(ctx context.Context, r *rig) (contest, error) {
	processes := max(realProcesses/r.shrink, casts.Processes)
	ranks := processes * ranksInEach
	ours, base, err := bothTo(ctx, r, fanoutRole, ranks, processes)
	if err != nil {
		return nil, err
	}
	v := verb{cast: casts.Caster.Reduce}
	return against(fanoutName, v.side(r, ours, ranks), v.side(r, base, ranks)), nil
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
