package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/mesh/shape"
)

func spawnContest(_ context.Context, r *rig) (contest, error) {
	ready := make(chan *nats.Msg, members)
	if _, err := r.raw.ChanSubscribe(readySubject, ready); err != nil {
		return nil, err
	}
	return against("exec-connect-publish", spawnOurs(r), spawnBase(r, ready)), r.raw.FlushTimeout(patience)
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

// spawnBase starts as many processes, which connect and say that they are ready.
func spawnBase(r *rig, ready <-chan *nats.Msg) side {
	return func(ctx context.Context) (_ []float64, err error) {
		var children []*child
		defer func() { err = errors.Join(err, endChildren(children...)) }()
		start := time.Now()
		for range members {
			c, err := startRole(starterRole, r.env()...)
			if err != nil {
				return nil, err
			}
			children = append(children, c)
		}
		late := time.NewTimer(patience)
		defer late.Stop()
		for i := range members {
			select {
			case <-ready:
			case <-late.C:
				return nil, fmt.Errorf("%d of %d processes are ready after %v", i, members, patience)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return []float64{since(start, time.Millisecond)}, nil
	}
}
