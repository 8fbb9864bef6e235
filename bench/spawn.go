package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/shape"
)

func spawnContest(_ context.Context, r *rig) (contest, error) {
	ready := make(chan *nats.Msg, members)
	if _, err := r.raw.ChanSubscribe(readySubject, ready); err != nil {
		return nil, err
	}
	return against("exec-connect-publish", spawnOurs(r), execBase(r, starterRole, members, ready)),
		r.raw.FlushTimeout(patience)
}

// spawnOurs spawns a mesh; stopping it is not timed.
func spawnOurs(r *rig) side {
	return func(ctx context.Context) ([]float64, error) {
		start := time.Now()
		procs, err := r.hosts.Spawn(ctx, "spawned", shape.Of("rank", members))
		took := since(start, time.Millisecond)
		if err != nil {
			return nil, err
		}
		return []float64{took}, procs.Stop(ctx)
	}
}

// execBase starts n processes in a role that reports its readiness. It launches as many at a time
// as a host.
func execBase(r *rig, role string, n int, ready <-chan *nats.Msg) side {
	return func(ctx context.Context) (_ []float64, err error) {
		var mu sync.Mutex
		var children []*child
		var failed []error
		var launches sync.WaitGroup
		defer func() {
			launches.Wait()
			err = errors.Join(err, errors.Join(failed...), endChildren(children...))
		}()
		start := time.Now()
		slots := make(chan struct{}, atOnce)
		for range n {
			slots <- struct{}{}
			launches.Go(func() {
				defer func() { <-slots }()
				c, err := startRole(role, r.env()...)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = append(failed, err)
					return
				}
				children = append(children, c)
			})
		}
		late := time.NewTimer(patience)
		defer late.Stop()
		for i := range n {
			select {
			case <-ready:
			case <-late.C:
				return nil, fmt.Errorf("%d of %d processes are ready after %v", i, n, patience)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return []float64{since(start, time.Millisecond)}, nil
	}
}
