package cast_test

import (
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
)

// gpus is a mesh without procs. Programs get theirs from mesh.Spawn.
type gpus struct{ extent shape.Extent }

func (g gpus) Target() (cast.Target, error) {
	return cast.Target{Placement: cast.Placement{Extent: g.extent, PerHost: 4}, Actor: "workers",
		Region: g.extent.Region()}, nil
}

func (g gpus) Ref(int) actor.Ref[*member] { return actor.Ref[*member]{} }

func ExampleThrottledMesh_Batches() {
	workers := gpus{shape.Of("host", 3).With("gpu", 4)}
	slow := cast.Throttled(workers, cast.Throttle{BatchSize: 4, PerHost: 2, Canary: true, MaxFailures: 1})
	batches, err := slow.Batches()
	fmt.Println(batches, err)

	some := cast.Throttled(workers, cast.Throttle{SamplePercent: 25, Seed: 42})
	batches, err = some.Batches()
	fmt.Println(batches, err)
	// Output:
	// [[0] [1 2 4 5] [3 6 7 8] [9 10] [11]] <nil>
	// [[1 2 4]] <nil>
}

func ExampleMerge() {
	words := cast.Merge[map[string]int](cast.Sum[int]())
	both, err := words.Fold(map[string]int{"a": 1, "b": 2}, map[string]int{"b": 3})
	fmt.Println(words.Name(), both, err)
	// Output: merge(sum) map[a:1 b:5] <nil>
}

func ExampleAggregator_Name() {
	fmt.Println(cast.TopK[float64](3).Name(), cast.Histogram(0.5, 10).Name(), cast.Count[string]().Name())
	fmt.Println(cast.TopK[float64](0).Err())
	// Output:
	// top(3) histogram(0.5,10) count()
	// reducer top(0): want how many to keep, 1 or more
}
