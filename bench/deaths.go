package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh"
)

const (
	killedProcs   = 40 // in one repeat
	failingRanks  = 20 // actors of one mesh
	failingMeshes = 2  // in one repeat
	waitingCalls  = 4  // for each proc that is killed
	leastDeaths   = 2  // however much a row is shrunk
)

// deathFamilies are those whose rows are about how soon the owner of a mesh knows of an end.
func deathFamilies() []family {
	const ms = "ms"
	return []family{
		{[]row{{"detect-actor-p99-ms", ms, false}}, onQuietRig(actorDeathContest)},
		{[]row{{"detect-proc-p99-ms", ms, false}}, onQuietRig(procDeathContest)},
	}
}

// onQuietRig is onRig for families whose failures are no news.
func onQuietRig(on func(context.Context, *rig) (contest, error)) setup {
	return onServer(false, func(ctx context.Context, r *rig) (contest, error) {
		if _, err := r.start(ctx, hostRole); err != nil {
			return nil, err
		}
		if err := r.connectWith(ctx, 1, zerolog.Nop()); err != nil {
			return nil, err
		}
		return on(ctx, r)
	})
}

// deaths are how long ends took to be known, in ms, of all repeats.
type deaths struct {
	name string
	took []float64
}

// String is their histogram.
func (d deaths) String() string {
	bounds := []float64{0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
	counts := make([]int, len(bounds)+1)
	for _, ms := range d.took {
		i, _ := slices.BinarySearch(bounds, ms)
		counts[i]++
	}
	s := fmt.Sprintf("%s: n=%d p50=%.2f p90=%.2f p99=%.2f max=%.2f ms;", d.name, len(d.took),
		quantile(d.took, 0.5), quantile(d.took, 0.9), quantile(d.took, 0.99), slices.Max(d.took))
	for i, n := range counts {
		switch {
		case n == 0:
		case i < len(bounds):
			s += fmt.Sprintf(" ≤%g:%d", bounds[i], n)
		default:
			s += fmt.Sprintf(" more:%d", n)
		}
	}
	return s
}

// told is an end that the owner has learned of.
type told struct {
	rank int
	at   time.Time
	err  error
}

// watch hears of the ends in a mesh until the returned function ends it.
func watch(ctx context.Context, m mesh.Watchable, ranks int) (<-chan told, func()) {
	ctx, cancel := context.WithCancel(ctx)
	heard := make(chan told, ranks+1)
	var watching sync.WaitGroup
	watching.Go(func() {
		for e, err := range m.Watch(ctx) {
			heard <- told{e.Rank, time.Now(), err}
		}
	})
	return heard, func() { cancel(); watching.Wait() }
}

// end waits for the end of one rank, and for nothing else.
func end(ctx context.Context, heard <-chan told, rank int) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case t := <-heard:
		if t.err == nil && t.rank != rank {
			t.err = fmt.Errorf("rank %d has ended, and not %d", t.rank, rank)
		}
		return t.at, t.err
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("the owner is not told of rank %d: %w", rank, ctx.Err())
	}
}

// actorDeathContest fails actors one after the other, by an error and by a panic in turns, and
// measures the time from the failing message until its owner learns of the end; against a
// millisecond.
func actorDeathContest(ctx context.Context, r *rig) (contest, error) {
	n := max(failingRanks/r.shrink, leastDeaths)
	procs, err := r.spawn(ctx, "failing", n)
	if err != nil {
		return nil, err
	}
	r.later(procs.Stop)
	all := deaths{name: "detect-actor"}
	ours := func(ctx context.Context) ([]float64, error) {
		var took []float64
		for range max(failingMeshes/r.shrink, 1) {
			one, err := failActors(ctx, procs, n)
			if err != nil {
				return nil, err
			}
			took = append(took, one...)
		}
		all.took = append(all.took, took...)
		fmt.Fprintln(r.notes, all)
		return []float64{quantile(took, 0.99)}, nil
	}
	return against("one-ms", ours, constant(1)), nil
}

func failActors(ctx context.Context, procs mesh.ProcMesh, n int) (took []float64, err error) {
	w, err := mesh.Spawn(ctx, procs, worker, "failing", struct{}{})
	if err != nil {
		return nil, err
	}
	heard, leave := watch(ctx, w, n)
	defer leave()
	for rank := range n {
		start := time.Now()
		if err := fail.Send(ctx, w.Ref(rank), rank%2 == 0); err != nil {
			return nil, err
		}
		at, err := end(ctx, heard, rank)
		if err != nil {
			return nil, err
		}
		took = append(took, float64(at.Sub(start))/float64(time.Millisecond))
		time.Sleep(betweenKills)
	}
	return took, w.Stop(ctx)
}

// procDeathContest kills procs one after the other, and measures the time from kill(2) until their
// owner learns of it and every waiting call has failed; against a millisecond.
func procDeathContest(_ context.Context, r *rig) (contest, error) {
	owner, calls := deaths{name: "detect-proc, owner"}, deaths{name: "detect-proc, last call"}
	ours := func(ctx context.Context) ([]float64, error) {
		told, failed, err := killProcs(ctx, r, max(killedProcs/r.shrink, leastDeaths))
		if err != nil {
			return nil, err
		}
		owner.took, calls.took = append(owner.took, told...), append(calls.took, failed...)
		fmt.Fprintf(r.notes, "%s\n%s\n", owner, calls)
		worst := make([]float64, len(told))
		for i := range worst {
			worst[i] = max(told[i], failed[i])
		}
		return []float64{quantile(worst, 0.99)}, nil
	}
	return against("one-ms", ours, constant(1)), nil
}

// killProcs kills n procs while calls wait for them. It returns the times until the owner learned
// of each, and until the last of its calls failed.
func killProcs(ctx context.Context, r *rig, n int) (told, failed []float64, err error) {
	procs, err := r.spawn(ctx, "killed", n)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, procs.Stop(ctx)) }()
	w, err := mesh.Spawn(ctx, procs, worker, "killed", struct{}{})
	if err != nil {
		return nil, nil, err
	}
	states, err := procs.States(ctx)
	if err != nil {
		return nil, nil, err
	}
	heard, leave := watch(ctx, procs, n)
	defer leave()
	for rank, s := range states.Values() {
		over, err := parkCalls(ctx, w.Ref(rank))
		if err != nil {
			return nil, nil, err
		}
		start := time.Now()
		if err := syscall.Kill(s.Proc.PID, syscall.SIGKILL); err != nil {
			return nil, nil, err
		}
		at, err := end(ctx, heard, rank)
		if err != nil {
			return nil, nil, err
		}
		told = append(told, float64(at.Sub(start))/float64(time.Millisecond))
		at, err = over()
		if err != nil {
			return nil, nil, err
		}
		failed = append(failed, float64(at.Sub(start))/float64(time.Millisecond))
		time.Sleep(betweenKills)
	}
	return told, failed, nil
}

// parkCalls has calls wait for an actor. The function waits until all have failed, and says when
// the last one did.
func parkCalls(ctx context.Context, to actor.Ref[*Worker]) (over func() (time.Time, error), err error) {
	ends := make(chan told, waitingCalls)
	for range waitingCalls {
		go func() {
			_, err := park.Call(ctx, to, actor.None{})
			ends <- told{at: time.Now(), err: err}
		}()
	}
	for n := 0; n < waitingCalls && err == nil; {
		n, err = parked.Call(ctx, to, actor.None{})
	}
	return func() (last time.Time, err error) {
		for range waitingCalls {
			t := <-ends
			last = t.at
			if !errors.Is(t.err, actor.ErrProcDead) {
				err = errors.Join(err, fmt.Errorf("a call to a dead proc ended with %q",
					strings.TrimSpace(fmt.Sprint(t.err))))
			}
		}
		return last, err
	}, err
}

var (
	fail   = actor.NewEndpoint[*Worker, bool, actor.None]("fail") // true: by a panic
	park   = actor.NewEndpoint[*Worker, actor.None, actor.None]("park")
	parked = actor.NewEndpoint[*Worker, actor.None, int]("parked")
)

func (*Worker) fail(_ *actor.Context, panics bool) (actor.None, error) {
	if panics {
		panic("as it was told")
	}
	return actor.None{}, errors.New("as it was told")
}

// park never answers.
func (w *Worker) park(ctx *actor.Context, _ actor.None) (actor.None, error) {
	actor.Defer[actor.None](ctx)
	w.parked++
	return actor.None{}, nil
}

func (w *Worker) howMany(*actor.Context, actor.None) (int, error) { return w.parked, nil }
