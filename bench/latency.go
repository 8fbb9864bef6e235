package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

const (
	payloadSize = 64
	members     = 8 // of a cast, or to be spawned
	rawCastName = "nats-publish-8-replies"
)

func payload() []byte { return bytes.Repeat([]byte{'x'}, payloadSize) }

// latency repeats a question with one in flight and returns quantiles of the times in µs.
func latency(n int, ask func(context.Context) error, quantiles ...float64) side {
	return func(ctx context.Context) ([]float64, error) {
		times := make([]float64, n)
		for i := range times {
			start := time.Now()
			if err := ask(ctx); err != nil {
				return nil, fmt.Errorf("message %d of %d: %w", i+1, n, err)
			}
			times[i] = since(start, time.Microsecond)
		}
		var out []float64
		for _, q := range quantiles {
			out = append(out, quantile(times, q))
		}
		return out, nil
	}
}

// workers spawns procs with a worker in each, and as many responders for the base.
func workers(ctx context.Context, r *rig, n int) (mesh.ActorMesh[*Worker], error) {
	roles := make([]string, n)
	for i := range roles {
		roles[i] = responderRole
	}
	if _, err := r.start(ctx, roles...); err != nil {
		return mesh.ActorMesh[*Worker]{}, err
	}
	return spawnWorkers(ctx, r, n)
}

func spawnWorkers(ctx context.Context, r *rig, n int) (mesh.ActorMesh[*Worker], error) {
	procs, err := r.hosts.Spawn(ctx, "workers", shape.Of("rank", n))
	if err != nil {
		return mesh.ActorMesh[*Worker]{}, err
	}
	r.later(procs.Stop)
	return mesh.Spawn(ctx, procs, worker, "workers", struct{}{})
}

func callContest(ctx context.Context, r *rig) (contest, error) {
	w, err := workers(ctx, r, 1)
	if err != nil {
		return nil, err
	}
	ref := w.Ref(0)
	m := payload()
	ours := func(ctx context.Context) error {
		answer, err := echo.Call(ctx, ref, m)
		return expect(err, len(answer), payloadSize)
	}
	base := func(context.Context) error {
		answer, err := r.raw.Request(oneSubject, m, patience)
		if err != nil {
			return err
		}
		return expect(nil, len(answer.Data), payloadSize)
	}
	return against("nats-request", latency(r.samples, ours, 0.5, 0.99), latency(r.samples, base, 0.5, 0.99)), nil
}

func gatherContest(ctx context.Context, r *rig) (contest, error) {
	w, err := workers(ctx, r, members)
	if err != nil {
		return nil, err
	}
	m := payload()
	ours := func(ctx context.Context) error {
		all, err := cast.Gather(ctx, w, echo, m)
		bytes := 0
		for _, answer := range all.Values() {
			bytes += len(answer)
		}
		return expect(err, bytes, members*payloadSize)
	}
	base, err := rawCast(r, m)
	return against(rawCastName, latency(r.samples, ours, 0.5), latency(r.samples, base, 0.5)), err
}

func reduceContest(ctx context.Context, r *rig) (contest, error) {
	w, err := workers(ctx, r, members)
	if err != nil {
		return nil, err
	}
	m := payload()
	ours := func(ctx context.Context) error {
		sum, err := cast.Reduce(ctx, w, size, m, cast.Sum[int64]())
		return expect(err, int(sum), members*payloadSize)
	}
	base, err := rawCast(r, m)
	return against(rawCastName, latency(r.samples, ours, 0.5), latency(r.samples, base, 0.5)), err
}

// rawCast is a cast by hand: one publish, and one reply from each member, who must be known by
// number. One cast is in flight, so that one subject for replies will do.
func rawCast(r *rig, m []byte) (func(context.Context) error, error) {
	inbox := nats.NewInbox()
	replies := make(chan *nats.Msg, members)
	if _, err := r.raw.ChanSubscribe(inbox, replies); err != nil {
		return nil, err
	}
	if err := r.raw.FlushTimeout(patience); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		late := time.NewTimer(patience)
		defer late.Stop()
		if err := r.raw.PublishRequest(allSubject, inbox, m); err != nil {
			return err
		}
		bytes := 0
		for i := range members {
			select {
			case reply := <-replies:
				bytes += len(reply.Data)
			case <-late.C:
				return fmt.Errorf("%d of %d replies within %v", i, members, patience)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return expect(nil, bytes, members*payloadSize)
	}, nil
}

// expect turns a wrong answer into an error: what answers wrongly is not worth timing.
func expect(err error, got, want int) error {
	if err == nil && got != want {
		err = fmt.Errorf("answered with %d bytes, want %d", got, want)
	}
	return err
}
