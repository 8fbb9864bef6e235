package otelcastnet_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/otelcastnet"
)

// Counter is an actor that adds numbers.
type Counter struct{ n int }

var (
	counter = actor.NewType[*Counter, int]("counter")
	add     = actor.NewEndpoint[*Counter, int, int]("add")
)

func newCounter(_ *actor.Context, start int) (*Counter, error) { return &Counter{start}, nil }

func (c *Counter) add(ctx *actor.Context, n int) (int, error) {
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int("counter.before", c.n))
	c.n += n
	return c.n, nil
}

// A call has a span at its caller and one at its handler, which adds an attribute.
func Example() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	tracer, err := otelcastnet.New(provider)
	if err != nil {
		panic(err)
	}
	server, err := embed.Start(ctx, embed.Options{DontListen: true})
	if err != nil {
		panic(err)
	}
	defer server.Shutdown()
	conn, err := mesh.Connect(ctx, mesh.Options{Server: server, Tracer: tracer,
		Actors: []actor.Def{counter.Define(newCounter, add.Handle((*Counter).add))}})
	if err != nil {
		panic(err)
	}
	defer conn.Close(ctx)
	ref, err := actor.Spawn(ctx, conn.Proc(), counter, "counter", 40)
	if err != nil {
		panic(err)
	}
	n, err := add.Call(ctx, ref, 2)
	fmt.Println(n, err)
	for _, s := range spans.GetSpans() {
		fmt.Println(s.SpanKind, s.Name, s.Status.Code)
	}
	// Output:
	// 42 <nil>
	// server counter/add Unset
	// client counter/add Unset
}

// A share of the messages without a trace begins one. Messages in a sampled trace of the program are
// sampled, too.
func ExampleRoots() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	server, err := embed.Start(ctx, embed.Options{DontListen: true})
	if err != nil {
		panic(err)
	}
	defer server.Shutdown()
	options := mesh.Options{Server: server}
	options.Actors = []actor.Def{counter.Define(newCounter, add.Handle((*Counter).add))}
	options.Tracer, err = otelcastnet.New(provider, otelcastnet.Roots(0.01))
	if err != nil {
		panic(err)
	}
	conn, err := mesh.Connect(ctx, options)
	if err != nil {
		panic(err)
	}
	defer conn.Close(ctx)
	ref, err := actor.Spawn(ctx, conn.Proc(), counter, "counter", 0)
	if err != nil {
		panic(err)
	}
	spans.Reset()
	own, span := provider.Tracer("program").Start(ctx, "request")
	n, err := add.Call(own, ref, 2)
	span.End()
	fmt.Println(n, err)
	for _, s := range spans.GetSpans() {
		fmt.Println(s.SpanKind, s.Name)
	}
	// Output:
	// 2 <nil>
	// server counter/add
	// client counter/add
	// internal request
}
