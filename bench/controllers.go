package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// countTime is how long messages are counted: two rounds of a controller that renew leases.
const countTime = 20 * time.Second

// controllerFamilies are those whose rows are about controllers of many ranks.
func controllerFamilies() []family {
	name := fmt.Sprintf("-%dx%d", controlHosts, controlPerHost)
	return []family{{[]row{
		{"controller-idle-cpu" + name, "%", false}, {"controller-idle-messages" + name, "messages", false},
		{"controller-burst-ms" + name, "ms", false},
	}, onServer(false, controllerContest)}}
}

// controllerContest takes what the owner of a mesh of procs and one of actors costs while nothing
// happens, in percent of a CPU and in messages a second, and how long it is until it knows of one
// in ten ranks that fail at once; each against 1.
func controllerContest(ctx context.Context, r *rig) (contest, error) {
	hosts := max(controlHosts/r.shrink, fewestHosts)
	if _, err := r.launch(ctx, launch{simulatedRole, []string{hostsEnv + "=" + fmt.Sprint(hosts)}}); err != nil {
		return nil, err
	}
	if err := r.connectWith(ctx, hosts, zerolog.Nop()); err != nil {
		return nil, err
	}
	procs, err := r.hosts.Spawn(ctx, "ranks", shape.Of("proc", controlPerHost))
	if err != nil {
		return nil, err
	}
	r.later(procs.Stop)
	ours := func(ctx context.Context) ([]float64, error) {
		w, err := mesh.Spawn(ctx, procs, worker, "ranks", struct{}{})
		if err != nil {
			return nil, err
		}
		cpu, err := r.idles(ctx)
		if err != nil {
			return nil, err
		}
		idle, err := r.counts(ctx, max(countTime/time.Duration(r.shrink), leastIdling))
		if err != nil {
			return nil, err
		}
		took, err := r.bursts(ctx, w, hosts)
		return []float64{cpu, idle, took}, errors.Join(err, w.Stop(ctx))
	}
	base := func(context.Context) ([]float64, error) { return []float64{1, 1, 1}, nil }
	return against("one", ours, base), nil
}

// ownCPU is how much CPU time this process has had.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// idles is what share of a CPU this process takes while nothing happens.
func (r *rig) idles(ctx context.Context) (percent float64, err error) {
	before, err := ownCPU()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	select {
	case <-time.After(max(idleTime/time.Duration(r.shrink), leastIdling)):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := ownCPU()
	return 100 * float64(after-before) / float64(time.Since(start)), err
}

// counts is how many messages there are in a second.
func (r *rig) counts(ctx context.Context, during time.Duration) (perSecond float64, err error) {
	heard, leave, err := r.overhear()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	kinds := map[string]int{}
	n := 0
	over := time.After(during)
	for {
		select {
		case m := <-heard:
			kinds[kindOf(m)]++
			n++
		case <-over:
			fmt.Fprintf(r.notes, "controller, idle: %d messages in %s: %s\n", n, during, byKind(kinds))
			return float64(n) / during.Seconds(), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// overhear subscribes a channel to all messages on the bus.
func (r *rig) overhear() (<-chan *nats.Msg, func() error, error) {
	heard := make(chan *nats.Msg, 1<<16)
	sub, err := r.raw.ChanSubscribe("castnet.>", heard)
	if err != nil {
		return nil, nil, err
	}
	return heard, sub.Unsubscribe, r.raw.FlushTimeout(patience)
}

func byKind(kinds map[string]int) (s string) {
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		s += fmt.Sprintf(" %s=%d", kind, kinds[kind])
	}
	return s
}

// bursts fails the first actor on each host, with one cast, and takes how long it is until the
// owner knows of all.
func (r *rig) bursts(ctx context.Context, w mesh.ActorMesh[*Worker], hosts int) (ms float64, err error) {
	told, stop := watch(ctx, w, hosts)
	defer stop()
	heard, leave, err := r.overhear()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	drained(heard)
	before, err := ownCPU()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cast.Send(ctx, w.Slice("proc", 0, 1), fail, true); err != nil {
		return 0, err
	}
	for range hosts {
		select {
		case t := <-told:
			if t.err != nil {
				return 0, t.err
			}
		case <-time.After(patience):
			return 0, errors.New("the owner is not told of every failure")
		}
	}
	took := since(start, time.Millisecond)
	after, err := ownCPU()
	fmt.Fprintf(r.notes, "controller, %d fail at once: known after %.1f ms, for which it had %s of CPU; "+
		"messages:%s\n", hosts, took, (after - before).Round(time.Microsecond), byKind(drained(heard)))
	return took, err
}
