package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// Type and endpoint of the counter.
var (
	counter = actor.NewType[*Counter, int64]("counter")
	add     = actor.NewEndpoint[*Counter, int64, int64]("add")
)

// Counter is the state of a counter.
type Counter struct{ n int64 }

func newCounter(_ *actor.Context, start int64) (*Counter, error) { return &Counter{n: start}, nil }

func (c *Counter) add(_ *actor.Context, delta int64) (int64, error) {
	c.n += delta
	return c.n, nil
}

func main() {
	proc.Main(counter.Define(newCounter, add.Handle((*Counter).add))) // a proc never returns
	if err := run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "hello: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	conn, err := mesh.Connect(ctx, mesh.Options{}) // NATS_URL, or the hostd of this machine
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }() // stops what was spawned
	hosts, err := conn.Hosts(ctx)
	if err != nil {
		return err
	}
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 4))
	if err != nil {
		return err
	}
	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 0)
	if err != nil {
		return err
	}
	one, err := add.Call(ctx, counters.At("host", 0, "gpu", 3), 5)
	if err != nil {
		return err
	}
	sum, err := cast.Reduce(ctx, counters.Slice("gpu", 0, 2), add, 1, cast.Sum[int64]())
	if err != nil {
		return err
	}
	fmt.Printf("%s: gpu 3 of host 0 counts %d; gpus 0 and 1 of all hosts count %d\n",
		counters.Extent(), one, sum)
	return nil
}
