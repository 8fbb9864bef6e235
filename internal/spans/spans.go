package spans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Scope is the instrumentation scope of the spans.
const Scope = "github.com/castnet-io/castnet/otelcastnet"

// schema is the version of the semantic conventions.
const schema = "https://opentelemetry.io/schemas/1.43.0"

// Options configure a tracer.
type Options struct {
	Provider trace.TracerProvider
	Roots    float64 // the share of messages without a trace that begin one, from 0 to 1
}

// tracer makes the spans.
type tracer struct {
	tracer trace.Tracer
	roots  uint64 // begin a trace below it; MaxUint64: always

	mu    sync.Mutex // guards the field below
	known map[actor.Operation]*description
}

// description is the part of a span that its repetitions share.
type description struct {
	name       string
	kind       trace.SpanStartOption
	attributes trace.SpanStartOption
	links      bool // to its parent
}

// maxOptions is the most that a span begins with: kind, attributes and link.
const maxOptions = 3

// maxKnown bounds the descriptions in memory. A proc has few pairs of senders and endpoints at a
// time, and then others.
const maxKnown = 1024

// New returns a tracer for the procs of castnet.
func New(o Options) (actor.Tracer, error) {
	if o.Provider == nil {
		return nil, errors.New("cannot make spans: want a tracer provider, got nil")
	}
	if !(o.Roots >= 0 && o.Roots <= 1) {
		return nil, fmt.Errorf("cannot sample a share of %v of new traces: want 0 to 1", o.Roots)
	}
	t := &tracer{tracer: o.Provider.Tracer(Scope, trace.WithSchemaURL(schema)), roots: math.MaxUint64}
	if o.Roots < 1 {
		t.roots = uint64(o.Roots * (1 << 63) * 2)
	}
	return t, nil
}

// Samples decides on a span: see actor.Tracer.
func (t *tracer) Samples(ctx context.Context, so actor.Decision) bool {
	if own := trace.SpanFromContext(ctx).SpanContext(); own.IsValid() {
		return own.IsSampled()
	}
	return so == actor.Sampled || so == actor.Undecided && t.beginsTrace()
}

// Start begins a span: see actor.Tracer.
func (t *tracer) Start(ctx context.Context, of actor.Trace, o actor.Operation) actor.Span {
	parent := trace.SpanContextFromContext(ctx)
	if !parent.IsValid() && of.IsValid() {
		parent = remote(of)
		ctx = trace.ContextWithSpanContext(ctx, parent)
	}
	as := t.describe(o)
	options := make([]trace.SpanStartOption, 0, maxOptions)
	options = append(options, as.kind, as.attributes)
	if as.links && parent.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: parent}))
	}
	_, s := t.tracer.Start(ctx, as.name, options...)
	if !s.IsRecording() {
		return nil
	}
	return span{s}
}

// beginsTrace draws whether a message without a trace begins one.
func (t *tracer) beginsTrace() bool { return t.roots == math.MaxUint64 || rand.Uint64() < t.roots }

// remote is the parent that a message has carried.
func remote(t actor.Trace) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: t.TraceID, SpanID: t.SpanID, TraceFlags: trace.TraceFlags(t.Flags), Remote: true,
	})
}

// span is a sampled operation.
type span struct{ trace.Span }

// Trace is the place of the span, as messages carry it.
func (s span) Trace() actor.Trace {
	sc := s.SpanContext()
	return actor.Trace{TraceID: sc.TraceID(), SpanID: sc.SpanID(), Flags: byte(sc.TraceFlags())}
}

// Context returns ctx with the span.
func (s span) Context(ctx context.Context) context.Context { return trace.ContextWithSpan(ctx, s.Span) }

// End ends the span with its outcome.
func (s span) End(o actor.Outcome) {
	if o.Answered+o.Failed+o.Missing+o.NotAsked > 0 {
		s.SetAttributes(coverage(o)...)
	}
	if o.Err != nil {
		kind := errorType(o.Err)
		s.SetStatus(codes.Error, o.Err.Error())
		s.SetAttributes(attribute.String("error.type", kind))
	}
	s.Span.End()
}

// coverage are the attributes of the outcome of a cast.
func coverage(o actor.Outcome) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.Int("castnet.cast.answered", o.Answered),
		attribute.Int("castnet.cast.failed", o.Failed),
		attribute.Int("castnet.cast.missing", o.Missing),
	}
	if o.NotAsked > 0 {
		all = append(all, attribute.Int("castnet.cast.not_asked", o.NotAsked))
	}
	if o.FailedRegion != "" {
		all = append(all, attribute.String("castnet.cast.failed_region", o.FailedRegion))
	}
	if o.MissingRegion != "" {
		all = append(all, attribute.String("castnet.cast.missing_region", o.MissingRegion))
	}
	return all
}

// errorType is the class of an error: the code of castnet, or else its Go type.
func errorType(err error) string {
	if e, ok := errors.AsType[*actor.Error](err); ok {
		return strconv.Itoa(int(e.Code))
	}
	return fmt.Sprintf("%T", err)
}

// name is the name of a span. It has the label of the actor, without its unique part.
func name(o actor.Operation) string {
	switch o.Kind {
	case actor.OpAsk, actor.OpAnswer:
		return method(o)
	case actor.OpSpawn:
		return "spawn " + o.Endpoint
	case actor.OpServe:
		if o.Awaited {
			return method(o)
		}
	}
	return operation(o.Kind) + " " + method(o)
}

// method is the endpoint of an actor, as a method of a service.
func method(o actor.Operation) string { return label(o.Actor.Name) + "/" + o.Endpoint }

// label is the label of an actor's name.
func label(name string) string {
	if at := len(name) - subjects.UIDLen - 1; at > 0 && name[at] == '-' {
		return name[:at]
	}
	return name
}

// operation is the name of what happens to a message.
func operation(k actor.OperationKind) string {
	names := map[actor.OperationKind]string{
		actor.OpPost: "send", actor.OpCast: "cast", actor.OpReceive: "receive",
	}
	return cmp.Or(names[k], "process")
}

// spanKind is the kind of the span of an operation.
func spanKind(o actor.Operation) trace.SpanKind {
	switch o.Kind {
	case actor.OpAsk:
		return trace.SpanKindClient
	case actor.OpAnswer:
		return trace.SpanKindServer
	case actor.OpPost, actor.OpCast:
		return trace.SpanKindProducer
	case actor.OpHandle, actor.OpReceive:
		return trace.SpanKindConsumer
	case actor.OpServe:
		if o.Awaited {
			return trace.SpanKindServer
		}
		return trace.SpanKindConsumer
	}
	return trace.SpanKindInternal
}

// describe returns the description of an operation: it makes those of casts, and keeps the others.
func (t *tracer) describe(o actor.Operation) *description {
	if o.Region != nil {
		return describe(o)
	}
	t.mu.Lock()
	d := t.known[o]
	t.mu.Unlock()
	if d != nil {
		return d
	}
	d = describe(o)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxKnown {
		t.known = map[actor.Operation]*description{}
	}
	t.known[o] = d
	return d
}

func describe(o actor.Operation) *description {
	kind := spanKind(o)
	var all []attribute.KeyValue
	switch kind {
	case trace.SpanKindClient, trace.SpanKindServer:
		all = rpc(o)
	case trace.SpanKindProducer:
		all = messaging(o, "send")
	case trace.SpanKindConsumer:
		all = messaging(o, "process")
	default:
		all = []attribute.KeyValue{attribute.String("castnet.spawn.name", o.Actor.Name)}
	}
	if o.Actor.IsValid() && o.Kind != actor.OpCast {
		all = append(all, attribute.Stringer("castnet.actor", o.Actor))
	}
	if o.Sender.IsValid() {
		all = append(all, attribute.Stringer("castnet.sender", o.Sender))
	}
	if o.Region != nil {
		all = append(all, attribute.Stringer("castnet.cast.region", o.Region),
			attribute.Int("castnet.cast.asked", o.Asked))
	}
	return &description{name: name(o), kind: trace.WithSpanKind(kind),
		attributes: trace.WithAttributes(all...), links: kind == trace.SpanKindConsumer}
}

// rpc are the attributes of a call.
func rpc(o actor.Operation) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("rpc.system.name", "castnet"), attribute.String("rpc.method", method(o)),
	}
}

// messaging are the attributes of a message without an answer, and of a cast.
func messaging(o actor.Operation, kind string) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("messaging.system", "castnet"),
		attribute.String("messaging.operation.type", kind),
		attribute.String("messaging.operation.name", operation(o.Kind)),
		attribute.String("messaging.destination.name", method(o)),
	}
	if o.Region != nil {
		all = append(all, attribute.Int("messaging.batch.message_count", o.Asked),
			attribute.Stringer("castnet.mesh", o.Actor.Proc.Mesh))
	}
	return all
}
