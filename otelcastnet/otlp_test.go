package otelcastnet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/otelcastnet"
	"github.com/castnet-io/castnet/shape"
)

// Rank is an actor of the test's mesh.
type Rank struct {
	rank int
	over chan struct{} // closed at the end of the test
}

var (
	rankType = actor.NewType[*Rank, int]("rank")
	square   = actor.NewEndpoint[*Rank, int, int]("square")
	hang     = actor.NewEndpoint[*Rank, int, int]("hang") // on that rank
	pass     = actor.NewEndpoint[*Rank, actor.Ref[*Rank], int]("pass")
	note     = actor.NewEndpoint[*Rank, int, actor.None]("note")
)

func (r *Rank) square(_ *actor.Context, n int) (int, error) {
	if n < 0 {
		return 0, errors.New("it is negative")
	}
	return n * n, nil
}

func (r *Rank) hang(_ *actor.Context, rank int) (int, error) {
	if r.rank == rank {
		<-r.over
	}
	return r.rank, nil
}

func (r *Rank) pass(ctx *actor.Context, to actor.Ref[*Rank]) (int, error) {
	return square.Call(ctx, to, 3)
}

func (r *Rank) note(*actor.Context, int) (actor.None, error) { return actor.None{}, nil }

// ranks is a mesh of the test.
type ranks struct {
	via   *actor.Proc
	place cast.Placement
}

func (m ranks) Target() (cast.Target, error) {
	return cast.Target{Via: m.via, Placement: m.place, Actor: "ranks", Region: m.place.Extent.Region()}, nil
}

func (m ranks) Ref(rank int) actor.Ref[*Rank] {
	return actor.RefOf[*Rank](m.place.Proc(rank).Actor("ranks")).Via(m.via)
}

// newProvider is an SDK that sends to the receiver with each span.
func newProvider(t testing.TB, to *receiver, service string) *sdk.TracerProvider {
	t.Helper()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(to.url+"/v1/traces"))
	require.NoError(t, err)
	p := sdk.NewTracerProvider(sdk.WithSyncer(exporter),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))
	testkit.Close(t, p.Shutdown)
	return p
}

func newTracer(t testing.TB, to *receiver, service string) actor.Tracer {
	t.Helper()
	tracer, err := otelcastnet.New(newProvider(t, to, service))
	require.NoError(t, err)
	return tracer
}

// newRanks is a mesh of 2 hosts with 3 processes each, whose spans go to the receiver.
func newRanks(t testing.TB, to *receiver) ranks {
	t.Helper()
	return newRanksWith(t, func(service string) actor.Tracer { return newTracer(t, to, service) })
}

// newRanksWith is such a mesh with any tracers.
func newRanksWith(t testing.TB, newTracer func(service string) actor.Tracer) ranks {
	t.Helper()
	srv := bustest.Server(t)
	m := ranks{place: cast.Placement{Mesh: testproc.MeshID(t, "mesh"), PerHost: 3, PerProcess: 1,
		Extent: shape.Of("host", 2).With("gpu", 3)}}
	m.via, _ = testproc.Start(t, srv, testproc.Options{Options: actor.Options{Tracer: newTracer("client")}})
	over := make(chan struct{})
	for rank := range m.place.Extent.NumRanks() {
		o := testproc.Options{Member: &cast.Member{Placement: m.place, Rank: rank},
			Options: actor.Options{ID: m.place.Proc(rank), Tracer: newTracer(fmt.Sprint("rank ", rank))}}
		p, _ := testproc.Start(t, srv, o, rankType.Define(
			func(_ *actor.Context, rank int) (*Rank, error) { return &Rank{rank, over}, nil },
			square.Handle((*Rank).square), hang.Handle((*Rank).hang), pass.Handle((*Rank).pass),
			note.Handle((*Rank).note)))
		_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "rank", Name: "ranks", Params: rank})
		require.NoError(t, err)
	}
	t.Cleanup(func() { close(over) })
	return m
}

// requireChild checks the parent of a span, and its only link if it has one.
func requireChild(t *testing.T, parent, child received, linked bool) {
	t.Helper()
	require.Equal(t, parent.TraceId, child.TraceId)
	require.Equal(t, parent.SpanId, child.ParentSpanId)
	if !linked {
		require.Empty(t, child.Links)
		return
	}
	require.Len(t, child.Links, 1)
	require.Equal(t, parent.TraceId, child.Links[0].TraceId)
	require.Equal(t, parent.SpanId, child.Links[0].SpanId)
}

func TestOTLP_receivedSpansAreTheCastThatWasMade_SPAN1(t *testing.T) {
	to := newReceiver(t)
	m := newRanks(t, to)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := cast.Reduce(ctx, m, hang, 4, cast.Sum[int]())
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	coverage := partial.Coverage

	all := to.all(t, 7)
	var home received
	services := map[string]received{}
	for _, s := range all {
		if s.Kind == tracepb.Span_SPAN_KIND_PRODUCER {
			home = s
		} else {
			require.Equal(t, tracepb.Span_SPAN_KIND_CONSUMER, s.Kind)
			services[s.service] = s
		}
	}
	require.Equal(t, "client", home.service)
	require.Equal(t, "cast ranks/hang", home.Name)
	require.Empty(t, home.ParentSpanId)
	require.Equal(t, coverage.Asked, home.int("castnet.cast.asked"))
	require.Equal(t, coverage.Answered, home.int("castnet.cast.answered"))
	require.Equal(t, len(coverage.Failed), home.int("castnet.cast.failed"))
	require.Equal(t, len(coverage.Missing), home.int("castnet.cast.missing"))
	require.Equal(t, "host=1,gpu=1", coverage.MissingRegion())
	require.Equal(t, coverage.MissingRegion(), home.text("castnet.cast.missing_region"))
	require.Equal(t, "*", home.text("castnet.cast.region"))
	require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, home.Status.Code)
	require.Equal(t, partial.Error(), home.Status.Message)
	require.Equal(t, "13", home.text("error.type"), "the code of the first reason")

	require.Len(t, services, coverage.Asked, "one process for each rank")
	answered, missing := 0, 0
	for rank := range coverage.Asked {
		s, there := services[fmt.Sprint("rank ", rank)]
		require.True(t, there)
		requireChild(t, home, s, true)
		require.Equal(t, "receive ranks/hang", s.Name)
		require.Equal(t, shape.DescribeRank(m.place.Extent, rank), s.text("castnet.cast.region"))
		require.Equal(t, 1, s.int("castnet.cast.asked"))
		answered += s.int("castnet.cast.answered")
		missing += s.int("castnet.cast.missing")
		if rank == 4 {
			require.Equal(t, coverage.MissingRegion(), s.text("castnet.cast.missing_region"))
			require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, s.Status.Code)
		}
	}
	require.Equal(t, coverage.Answered, answered)
	require.Equal(t, len(coverage.Missing), missing)
}

func TestOTLP_callIsAClientAndAServerSpan_SPAN1(t *testing.T) {
	to := newReceiver(t)
	m := newRanks(t, to)
	_, err := pass.Call(testkit.Soon(t), m.Ref(0), m.Ref(1))
	require.NoError(t, err)
	of := map[string]received{} // by kind and service
	for _, s := range to.all(t, 4) {
		of[s.Kind.String()[len("SPAN_KIND_"):]+" "+s.service] = s
		require.Equal(t, "castnet", s.text("rpc.system.name"))
		require.Equal(t, s.Name, s.text("rpc.method"))
		require.Zero(t, s.Status.GetCode())
	}
	requireChild(t, of["CLIENT client"], of["SERVER rank 0"], false)
	requireChild(t, of["SERVER rank 0"], of["CLIENT rank 0"], false)
	requireChild(t, of["CLIENT rank 0"], of["SERVER rank 1"], false)
	require.Equal(t, "ranks/pass", of["SERVER rank 0"].Name)
	require.Equal(t, "ranks/square", of["SERVER rank 1"].Name)
	require.Equal(t, m.Ref(1).ID().String(), of["CLIENT rank 0"].text("castnet.actor"))
}

func TestOTLP_messageWithoutAnswerIsAProducerAndAConsumerSpan_SPAN1(t *testing.T) {
	to := newReceiver(t)
	m := newRanks(t, to)
	require.NoError(t, note.Send(t.Context(), m.Ref(0), 1))
	all := to.all(t, 2)
	producer, consumer := all[0], all[1]
	if producer.Kind != tracepb.Span_SPAN_KIND_PRODUCER {
		producer, consumer = consumer, producer
	}
	requireChild(t, producer, consumer, true)
	require.Equal(t, "send ranks/note", producer.Name)
	require.Equal(t, "process ranks/note", consumer.Name)
	require.Equal(t, "send", producer.text("messaging.operation.type"))
	require.Equal(t, "process", consumer.text("messaging.operation.type"))
	for _, s := range all {
		require.Equal(t, "castnet", s.text("messaging.system"))
		require.Equal(t, "ranks/note", s.text("messaging.destination.name"))
	}
}

func TestOTLP_errorIsAStatus_SPAN1(t *testing.T) {
	to := newReceiver(t)
	m := newRanks(t, to)
	_, err := square.Call(testkit.Soon(t), m.Ref(2), -1)
	require.Error(t, err)
	for _, s := range to.all(t, 2) {
		require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, s.Status.Code)
		require.Contains(t, s.Status.Message, "it is negative")
		require.NotEmpty(t, s.text("error.type"))
	}
}

func TestOTLP_spanOfTheProgramIsTheParent_SPAN1(t *testing.T) {
	to := newReceiver(t)
	m := newRanks(t, to)
	ctx, own := newProvider(t, to, "client").Tracer("test").Start(testkit.Soon(t), "own")
	_, err := square.Call(actor.WithTrace(ctx, actor.Trace{}), m.Ref(0), 1)
	require.NoError(t, err)
	_, err = cast.Gather(ctx, m, square, 1)
	require.NoError(t, err)
	own.End()
	children := 0
	for _, s := range to.all(t, 2+7+1) {
		require.Equal(t, own.SpanContext().TraceID().String(), fmt.Sprintf("%x", s.TraceId))
		if fmt.Sprintf("%x", s.ParentSpanId) == own.SpanContext().SpanID().String() {
			children++
		}
	}
	require.Equal(t, 2, children)
}

func TestRoots_shareOfNewTraces_SPAN2(t *testing.T) {
	srv := bustest.Server(t)
	for share, least := range map[float64]int{0: 0, 0.5: 50, 1: 200} {
		to := newReceiver(t)
		tracer, err := otelcastnet.New(newProvider(t, to, "all"), otelcastnet.Roots(share))
		require.NoError(t, err)
		p, _ := testproc.Start(t, srv, testproc.Options{Options: actor.Options{Tracer: tracer}}, rankType.Define(
			func(_ *actor.Context, rank int) (*Rank, error) { return &Rank{rank: rank}, nil },
			square.Handle((*Rank).square), pass.Handle((*Rank).pass)))
		ref, err := actor.Spawn(t.Context(), p, rankType, "rank", 0)
		require.NoError(t, err)
		other, err := actor.Spawn(t.Context(), p, rankType, "rank", 0)
		require.NoError(t, err)
		for range 200 {
			_, err := pass.Call(t.Context(), ref, other)
			require.NoError(t, err)
		}
		to.mu.Lock()
		n := len(to.spans)
		to.mu.Unlock()
		require.Zero(t, n%4, "each trace is whole")
		require.GreaterOrEqual(t, n/4, least)
		if share == 0.5 {
			require.Less(t, n/4, 150)
		}
		unsampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: [16]byte{1}, SpanID: [8]byte{1}})
		_, err = square.Call(trace.ContextWithSpanContext(t.Context(), unsampled), ref, 1)
		require.NoError(t, err)
		require.Len(t, to.all(t, n), n, "an unsampled trace has no spans")
	}
}

func TestNew_refusesWhatItCannotUse_SPAN2(t *testing.T) {
	_, err := otelcastnet.New(nil)
	require.ErrorContains(t, err, "want a tracer provider")
	for _, share := range []float64{-0.1, 1.1} {
		_, err = otelcastnet.New(sdk.NewTracerProvider(), otelcastnet.Roots(share))
		require.ErrorContains(t, err, "want 0 to 1")
	}
}
