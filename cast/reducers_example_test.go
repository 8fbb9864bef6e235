package cast_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// square asks a rank of the example for the square of its number.
var square = actor.NewEndpoint[*member, actor.None, int]("square")

// four starts a server, four procs with an actor each, and a casting proc. Programs get theirs from
// mesh.Connect.
func four(ctx context.Context) (m members, done func(), err error) {
	srv, err := embed.Start(ctx, embed.Options{DontListen: true})
	if err != nil {
		return m, nil, err
	}
	closing := []func(){srv.Shutdown}
	done = func() {
		for i := range closing {
			closing[len(closing)-1-i]()
		}
	}
	start := func(id subjects.ProcID, at *cast.Member) *actor.Proc {
		def := memberType.Define(func(_ *actor.Context, rank int) (*member,
			error) {
			return &member{rank: rank}, nil
		},
			square.Handle(func(m *member, _ *actor.Context, _ actor.None) (int,
				error) {
				return m.rank * m.rank, nil
			}))
		registry, e1 := actor.NewRegistry(def)
		b, e2 := bus.Open(ctx, bus.Options{Server: srv})
		p, e3 := actor.NewProc(ctx, actor.Options{ID: id, Bus: b, Registry: registry})
		r, e4 := cast.Start(p, at)
		err = errors.Join(err, e1, e2, e3, e4)
		closing = append(closing, func() { _ = errors.Join(p.Close(ctx), b.Close(ctx)) }, r.Close)
		return p
	}
	client, err1 := subjects.NewMeshID("client")
	mesh, err2 := subjects.NewMeshID("mesh")
	e := shape.Of("host", 2).With("gpu", 2)
	m = members{place: cast.Placement{Mesh: mesh, Extent: e, PerHost: 2}, region: e.Region(),
		err: errors.Join(err1, err2)}
	m.via = start(subjects.ProcID{Mesh: client}, nil)
	for rank := range e.NumRanks() {
		p := start(m.place.Proc(rank), &cast.Member{Placement: m.place, Rank: rank})
		_, e5 := p.Spawn(ctx, actor.SpawnSpec{Type: "member", Name: "members", Params: rank})
		err = errors.Join(err, e5)
	}
	return m, done, err
}

func ExampleAggregate() {
	ctx := context.Background()
	workers, done, err := four(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	fmt.Println(cast.Aggregate(ctx, workers, square, actor.None{}, cast.TopK[int](2)))
	fmt.Println(cast.Aggregate(ctx, workers, square, actor.None{}, cast.Histogram(1, 5)))
	fmt.Println(cast.Aggregate(ctx, workers, square, actor.None{}, cast.Count[int]()))

	slow := cast.Throttled(workers, cast.Throttle{BatchSize: 1, Canary: true})
	fmt.Println(cast.Reduce(ctx, slow, square, actor.None{}, cast.Sum[int]()))
	// Output:
	// [9 4] <nil>
	// [1 2 1] <nil>
	// 4 <nil>
	// 14 <nil>
}
