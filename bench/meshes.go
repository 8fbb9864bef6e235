package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

const (
	spawnHosts   = 8 // simulated
	spawnPerHost = 64
	spawnSamples = 100 // messages of -samples for each spawn that is timed

	subscribingProcs = 64

	handleHosts   = 12_500
	handlePerHost = 8
	handleSlices  = 16
	mebibyte      = 1 << 20
)

// meshFamilies are those whose rows are about what users hold.
func meshFamilies() []family {
	return []family{
		{[]row{{fmt.Sprintf("actor-spawn-%d", spawnHosts*spawnPerHost), "us", false}},
			onServer(false, actorSpawnContest)},
		{[]row{{"subs-per-process", "subscriptions", false}}, onServer(true, subscriptionsContest)},
		{[]row{{"handle-bytes-1e5", "B", false}}, onRig(handleContest)},
	}
}

// actorSpawnContest measures the spawn of an actor in each of many procs that share processes,
// until it returns, against one gather over as many actors in the same procs.
func actorSpawnContest(ctx context.Context, r *rig) (contest, error) {
	if err := r.addSimulated(ctx, spawnHosts); err != nil {
		return nil, err
	}
	procs, err := r.hosts.Spawn(ctx, "ranks", shape.Of("rank", r.procs(spawnPerHost)))
	if err != nil {
		return nil, err
	}
	r.later(procs.Stop)
	there, err := mesh.Spawn(ctx, procs, worker, "there", struct{}{})
	if err != nil {
		return nil, err
	}
	n := max(r.samples/spawnSamples, 1)
	ours := func(ctx context.Context) ([]float64, error) {
		var fresh mesh.ActorMesh[*Worker]
		return timed(n, func() (err error) {
			fresh, err = mesh.Spawn(ctx, procs, worker, "spawned", struct{}{})
			return err
		}, func() error { return fresh.Stop(ctx) })
	}
	m := payload()
	base := func(ctx context.Context) ([]float64, error) {
		return timed(n, func() error {
			all, err := cast.Gather(ctx, there, echo, m)
			return expect(err, all.Len(), procs.Extent().NumRanks())
		}, func() error { return nil })
	}
	return against("gather", ours, base), nil
}

// subscriptionsContest counts the subscriptions that a server has of each proc of a mesh, after casts
// to its actors, against one for each.
func subscriptionsContest(ctx context.Context, r *rig) (contest, error) {
	if err := r.addHost(ctx); err != nil {
		return nil, err
	}
	ours := func(ctx context.Context) ([]float64, error) {
		before := r.server.NumSubs()
		n := r.procs(subscribingProcs)
		procs, err := r.spawn(ctx, "subscribing", n)
		if err != nil {
			return nil, err
		}
		actors, err := mesh.Spawn(ctx, procs, worker, "subscribing", struct{}{})
		if err == nil {
			_, err = cast.Gather(ctx, actors, echo, payload())
		}
		all := r.server.NumSubs() - before
		return []float64{float64(all) / float64(n)}, errors.Join(err, procs.Stop(ctx))
	}
	return against("one", ours, constant(1)), nil
}

// timed returns the times of n calls of do, in µs. Calls of undo are not timed.
func timed(n int, do, undo func() error) ([]float64, error) {
	times := make([]float64, n)
	for i := range times {
		start := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		times[i] = since(start, time.Microsecond)
		if err := undo(); err != nil {
			return nil, err
		}
	}
	return []float64{quantile(times, 0.5)}, nil
}

// handleContest measures what one who reads a handle on a mesh of 10⁵ ranks holds: the handle,
// slices of it along every dimension, and the handle as text again; against a mebibyte.
func handleContest(_ context.Context, r *rig) (contest, error) {
	text := []byte(handleText())
	ours := func(context.Context) ([]float64, error) {
		var h handles
		before := heap()
		if err := h.read(text, r.net); err != nil {
			return nil, err
		}
		bytes := heap() - before
		runtime.KeepAlive(&h)
		return []float64{float64(bytes)}, nil
	}
	return against("one-mebibyte", ours, constant(mebibyte)), nil
}

// handleText is a handle as another program wrote it.
func handleText() string {
	var hosts strings.Builder
	for i := range handleHosts {
		if i > 0 {
			hosts.WriteByte(',')
		}
		fmt.Fprintf(&hosts, "rack%03dn%02d-%013d", i/100, i%100, i)
	}
	region := fmt.Sprintf("host=%d/%d,gpu=%d/1", handleHosts, handlePerHost, handlePerHost)
	return fmt.Sprintf("workers-000000000000n|client-000000000000c/0.0/controller-000000000000d|"+
		"ranks-000000000000m:%s@client-000000000000c/0.0/controller-000000000000e@0@%s@%s", &hosts, region, region)
}

// handles is a handle, what was cut from it, and how it is written.
type handles struct {
	whole  mesh.ActorMesh[*Worker]
	slices []mesh.ActorMesh[*Worker]
	text   []byte
}

func (h *handles) read(text []byte, n *mesh.Net) (err error) {
	if err := h.whole.UnmarshalText(text); err != nil {
		return err
	}
	h.whole = h.whole.Via(n)
	for i := range handleSlices {
		s := h.whole.Slice("host", i, handleHosts).Slice("gpu", i%handlePerHost, handlePerHost)
		if err := s.Err(); err != nil {
			return err
		}
		h.slices = append(h.slices, s)
	}
	h.text, err = h.whole.MarshalText()
	return err
}

// heap is how many bytes are in use once nothing is left that could be collected.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers and caches held on to
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
