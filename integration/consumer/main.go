package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// The counter and its endpoints.
var (
	counter = actor.NewType[*Counter, int64]("counter")
	add     = actor.NewEndpoint[*Counter, int64, int64]("add")
)

// Counter is how it is done.
type Counter struct{ n int64 }

func newCounter(_ *actor.Context, start int64) (*Counter, error) { return &Counter{n: start}, nil }

func (c *Counter) add(_ *actor.Context, delta int64) (int64, error) {
	c.n += delta
	return c.n, nil
}

const token = "consumer"

func main() {
	proc.Main(counter.Define(newCounter, add.Handle((*Counter).add)))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "consumer: %v\n", err)
		os.Exit(1)
	}
}

// run is a node and a client; see serve for the node.
func run(ctx context.Context) error {
	server, err := embed.Start(ctx, embed.Options{Token: token})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	return serve(ctx, server, func() error {
		conn, err := mesh.Connect(ctx, mesh.Options{Bus: &bus.Options{Token: token}, Server: server})
		if err != nil {
			return err
		}
		return errors.Join(use(ctx, conn), conn.Close(ctx))
	})
}

// serve runs a host in this process while f does its work.
func serve(ctx context.Context, server *embed.Server, f func() error) error {
	b, err := bus.Open(ctx, bus.Options{URL: server.URL(), Token: token, Name: "host/a"})
	if err != nil {
		return err
	}
	h, err := host.Start(ctx, host.Options{Label: "a", Bus: b,
		Settings: agent.BusSettings{URL: server.URL(), Token: token}})
	if err != nil {
		return errors.Join(err, b.Close(ctx))
	}
	return errors.Join(f(), h.Close(ctx), b.Close(ctx))
}

// use is what the program is about.
func use(ctx context.Context, conn *mesh.Net) error {
	hosts, err := conn.Hosts(ctx)
	if err != nil {
		return err
	}
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 4))
	if err != nil {
		return err
	}
	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 10)
	if err != nil {
		return err
	}
	one, err := add.Call(ctx, counters.At("gpu", 3), 5)
	if err != nil {
		return err
	}
	each, err := cast.Gather(ctx, counters.Slice("gpu", 0, 2), add, 1)
	if err != nil {
		return err
	}
	sum, err := cast.Reduce(ctx, counters, add, 0, cast.Sum[int64]())
	if err != nil {
		return err
	}
	fmt.Printf("call %d, gather %v, sum %d\n", one, each.Values(), sum)
	if want := int64(15 + 2*11 + 10); sum != want {
		return fmt.Errorf("the sum is %d, want %d", sum, want)
	}
	return nil
}
