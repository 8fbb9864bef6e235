package mesh_test

import (
	"context"
	"fmt"

	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// These examples have the programs of the pages in docs.

// A cast goes to a slice of a mesh, or to a union of slices.
func ExampleActorMesh_Select() {
	ctx := context.Background()
	_, hosts, end := demo(ctx)
	defer end()
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 4))
	must(err)
	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 0)
	must(err)
	must(func() error {
		row := counters.Slice("host", 1, 2) // the four counters of host 1; the end is exclusive
		same := counters.Select("host=1")
		column := counters.Select("gpu=3") // gpu 3 of both hosts
		part := counters.Select("host=1,gpu=0:2")

		sum, err := cast.Reduce(ctx, row, add, 1, cast.Sum[int64]())
		if err != nil {
			return err
		}
		fmt.Println(same.Extent(), column.Extent(), part.Extent(), sum)
		union, err := shape.ParseSelection(counters.Extent(), "host=0 | gpu=3")
		if err != nil {
			return err
		}
		sum, err = cast.Reduce(ctx, cast.Select(counters, union), add, 1, cast.Sum[int64]())
		fmt.Println(sum)
		return err
	}())
	// Output:
	// host=1,gpu=4 host=2,gpu=1 host=1,gpu=2 4
	// 6
}

// A failed rank starts again in its place, or on a spare host if its host is dead.
func ExampleRestartPolicy() {
	ctx, cancel := context.WithCancel(context.Background())
	conn, hosts, end := demo(ctx)
	defer end()
	spares, err := conn.Allocate(ctx, host.LocalHosts{Label: "spare"}, "spares", shape.Of("host", 1))
	must(err)
	must(func() error {
		procs, err := hosts.SpawnProcs(ctx, mesh.SpawnSpec{
			Name: "workers", PerHost: shape.Of("gpu", 2),
			RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient, Spares: spares.Hosts()},
		})
		if err != nil {
			return err
		}
		counters, err := mesh.SpawnActors(ctx, procs, counter, mesh.ActorSpawnSpec[int64]{
			Label: "counters", RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient},
		})
		if err != nil {
			return err
		}
		cancel() // or the changes never end
		for e, err := range counters.Changes(ctx) {
			if err != nil {
				return err
			}
			fmt.Println(e.Step, e.Point, e.Reason) // rank.restart.attempt host=1/2,gpu=1/2 killed by signal 9
		}
		return nil
	}())
}

// The system controller owns a detached mesh until a program adopts it.
func ExampleProcMesh_Detach() {
	ctx := context.Background()
	conn, hosts, end := demo(ctx)
	defer end()
	procs, err := hosts.Spawn(ctx, "words", shape.Of("gpu", 2))
	must(err)
	must(func() error {
		held, err := procs.Detach(ctx) // procs outlive this program; an adopter names held.Epoch
		if err != nil {
			return err
		}
		adopted, err := conn.Adopt(ctx, "words", held.Epoch)
		fmt.Println(adopted.Describe().Owner)
		return err
	}())
}

// A world is a mesh of procs.
func ExampleNet_Lookup() {
	ctx := context.Background()
	conn, _, end := demo(ctx)
	defer end()
	must(func() error {
		procs, err := conn.Lookup(ctx, "train") // the ranks that are there; Host tells where
		if err != nil {
			return err
		}
		counters, err := mesh.Spawn(ctx, procs, counter, "counters", 0) // they end with this program; the world goes on
		if err != nil {
			return err
		}
		sum, err := cast.Reduce(ctx, counters, add, 1, cast.Sum[int64]())
		if err != nil {
			return err
		}
		again, err := mesh.Find[*Counter](ctx, procs, "counters") // actors that another program spawned
		if err != nil {
			return err
		}
		for end, err := range procs.Watch(ctx) { // ended ranks, and ranks of dead hosts
			if err != nil {
				return err
			}
			fmt.Println(end.Point, end.Reason)
		}
		fmt.Println(sum, again.Extent())
		return nil
	}())
}

// A program declares a world, and lists those of a team.
func ExampleNet_worlds() {
	ctx := context.Background()
	conn, _, end := demo(ctx)
	defer end()
	spec := system.Spec{Name: "train", Shape: shape.Of("gpu", 2), PerHost: 1,
		Command: mesh.Command{Path: "builtin"}, Labels: map[string]string{"team": "vision"}}
	must(func() error {
		ctl, err := system.Find(ctx, conn.Proc())
		if err != nil {
			return err
		}
		made, err := system.Upsert.Call(ctx, ctl, system.UpsertRequest{Spec: spec})
		if err != nil {
			return err
		}
		now, err := system.GetSnapshot.Call(ctx, ctl, system.Filter{WorldLabels: map[string]string{"team": "vision"}})
		fmt.Println(made, now)
		return err
	}())
}
