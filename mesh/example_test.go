package mesh_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// demo is a castnet in this process: a server, a client, and two hosts with their procs.
func demo(ctx context.Context) (conn *mesh.Net, hosts mesh.HostMesh, end func()) {
	server, err := embed.Start(ctx, embed.Options{Token: "secret"})
	must(err)
	registry, err := actor.NewRegistry(actors())
	must(err)
	conn, err = mesh.Connect(ctx, mesh.Options{Server: server})
	must(err)
	here := host.LocalHosts{Label: "node", Local: &host.Local{Registry: registry}} // on the bus of conn
	hosts, err = conn.Allocate(ctx, here, "nodes", shape.Of("host", 2))
	must(err)
	return conn, hosts, func() {
		must(conn.Close(ctx)) // stops all that was spawned and started
		server.Shutdown()
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// The main job: procs on hosts, actors in procs, and messages to one of them, some, and all.
func Example() {
	ctx := context.Background()
	_, hosts, end := demo(ctx)
	defer end()
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 2))
	must(err)
	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 10)
	must(err)

	one, err := add.Call(ctx, counters.At("host", 1, "gpu", 0), 5)
	must(err)
	some, err := cast.Gather(ctx, counters.Slice("gpu", 0, 1), add, 1)
	must(err)
	sum, err := cast.Reduce(ctx, counters, add, 0, cast.Sum[int64]())
	must(err)
	fmt.Println(one, some.Extent(), some.Values(), sum)
	// Output:
	// 15 host=2,gpu=1 [11 16] 47
}

// Hosts are sliced and reshaped like any mesh. A mesh on a part of them runs on that part only.
func ExampleHostMesh() {
	ctx := context.Background()
	conn, hosts, end := demo(ctx)
	defer end()
	procs, err := hosts.Slice("host", 1, 2).Spawn(ctx, "workers", shape.Of("gpu", 4))
	must(err)
	fmt.Println(hosts.Extent(), hosts.Reshape(shape.Of("rack", 2).With("node", 1)).Extent(), procs.Extent())

	again, err := conn.Attach(ctx, "again", hosts.Hosts()...) // fails unless each of them answers
	must(err)
	must(again.Take(ctx)) // nobody else ends them now
	fmt.Println(again.Shutdown(ctx, "done"))
	_, err = again.Describe(ctx)
	var gone *mesh.HostsError
	fmt.Println(errors.As(err, &gone) && len(gone.Failed) == 2)
	// Output:
	// host=2 rack=2,node=1 host=1,gpu=4
	// <nil>
	// true
}

// Each rank of a proc mesh has a status. A slice is stopped alone.
func ExampleProcMesh() {
	ctx := context.Background()
	_, hosts, end := demo(ctx)
	defer end()
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 2))
	must(err)
	must(procs.Slice("host", 1, 2).Stop(ctx))
	alive, err := procs.Ping(ctx)
	must(err)
	states, err := procs.States(ctx)
	must(err)
	for point, s := range states.All() {
		up, _ := alive.At(point.Rank())
		fmt.Println(point, up, s.Status)
	}
	// Output:
	// host=0/2,gpu=0/2 true running
	// host=0/2,gpu=1/2 true running
	// host=1/2,gpu=0/2 false stopped: stopped by its user
	// host=1/2,gpu=1/2 false stopped: stopped by its user
}

// An error of one rank is reported for that rank; the others still answer.
func ExampleActorMesh() {
	ctx := context.Background()
	_, hosts, end := demo(ctx)
	defer end()
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 2))
	must(err)
	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 1)
	must(err)
	must(counters.Slice("gpu", 1, 2).Stop(ctx))
	sum, err := cast.Reduce(ctx, counters, add, 1, cast.Sum[int64]())
	var partial *cast.CoverageError
	fmt.Println(sum, errors.As(err, &partial), partial.Coverage.FailedRegion())
	// Output:
	// 4 true host=*,gpu=1
}

// A handle is a value: its text goes into a message, a file or a command line, and its reader can
// use it.
func ExampleActorMesh_MarshalText() {
	ctx := context.Background()
	conn, hosts, end := demo(ctx)
	defer end()
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 2))
	must(err)
	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 1)
	must(err)
	text, err := counters.Slice("gpu", 0, 1).MarshalText()
	must(err)

	var read mesh.ActorMesh[*Counter]
	must(read.UnmarshalText(text))
	sum, err := cast.Reduce(ctx, read.Via(conn), add, 1, cast.Sum[int64]())
	fmt.Println(read.Extent(), sum, err)

	err = read.UnmarshalText([]byte("counters"))
	var ref *mesh.RefError
	fmt.Println(errors.As(err, &ref), err)
	// Output:
	// host=2,gpu=1 4 <nil>
	// true actor mesh "counters": want name|owner|procs
}
