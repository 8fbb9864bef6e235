package actor

import (
	"context"
	"fmt"

	"github.com/castnet-io/castnet/subjects"
)

// Tracer decides on spans of messages and makes them (Options.Tracer). Its methods run on the
// goroutines of senders, handlers and connections, and must not block.
type Tracer interface {
	// Samples reports whether a message from outside of handlers has a span. The tracer's own span in
	// ctx decides, or else the sender before. Without either, the message may begin a trace.
	Samples(ctx context.Context, so Decision) bool
	// Start begins the span of a sampled operation. Its parent is the tracer's own span in ctx, or
	// else t; without either it begins a trace. nil: it has no span all the same.
	Start(ctx context.Context, t Trace, o Operation) Span
}

// Decision is the decision of earlier senders on the spans of a message.
type Decision uint8

// Decisions on a message.
const (
	Undecided Decision = iota // it has no trace, and may begin one
	Sampled
	NotSampled
)

// Span is a sampled operation.
type Span interface {
	// Trace is the trace of messages that the operation sends.
	Trace() Trace
	// Context returns ctx with the span, for code that uses the tracer by itself.
	Context(ctx context.Context) context.Context
	// End ends the span, on any goroutine. It is called once.
	End(Outcome)
}

// OperationKind is a kind of operation with a span.
type OperationKind uint8

// Operations with a span.
const (
	OpAsk     OperationKind = iota // a caller sends a message and waits for the answer
	OpPost                         // a sender hands a message over; its handler may run later
	OpAnswer                       // a handler runs, and its caller has the answer
	OpHandle                       // a handler runs, and nobody waits
	OpServe                        // a plain client's message, from its arrival to its answer
	OpCast                         // a cast, until each rank has its fate
	OpReceive                      // a cast in one process, until its ranks there have answered
	OpSpawn                        // a mesh is spawned
)

// Operation is the subject of a span.
type Operation struct {
	Kind     OperationKind
	Sender   subjects.ActorID // zero: a plain client
	Actor    subjects.ActorID // the receiver; of casts only its name and mesh
	Endpoint string
	Awaited  bool         // of casts and of plain clients: they want answers
	Region   fmt.Stringer // of casts: the addressed ranks
	Asked    int          // of casts: the ranks, or those in this process
}

// Outcome is the end of an operation.
type Outcome struct {
	Err error // nil: it succeeded

	// Of casts:
	Answered, Failed, Missing, NotAsked int
	FailedRegion, MissingRegion         string // the ranks, as text
}

// messageContext is the context of messages that begin no spans: that of a span has one, and an
// operation that is not sampled has none.
type messageContext struct {
	context.Context
	origin origin
}

// messageKey is the context key of a messageContext. The contexts derived from it inherit it.
type messageKey struct{}

// Value names the sender and the trace of the message to this package.
func (c *messageContext) Value(key any) any {
	if key == (originKey{}) {
		return &c.origin
	}
	if key == (messageKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// startSpan begins the span of a message from code with ctx, and returns the context to send it
// with. The proc has a tracer. The span is nil if there is none, or the message has it already.
//
//go:noinline
func (p *Proc) startSpan(ctx context.Context, kind OperationKind, to subjects.ActorID,
	endpoint string) (context.Context, Span) {
	if !p.samples(ctx) {
		return ctx, nil
	}
	s := p.start(ctx, Operation{Kind: kind, Actor: to, Endpoint: endpoint})
	if s == nil {
		return ctx, nil
	}
	return &messageContext{ctx, origin{originOf(ctx).in, s.Trace().encode()}}, s
}

// samples reports whether a message from code with ctx has a span of its own. Most have none, so it
// looks a context up as rarely as it can.
func (p *Proc) samples(ctx context.Context) bool {
	if c, handling := ctx.(*Context); handling { // the sender of the handled message has decided
		return c.trace.IsSampled()
	}
	from, derived := ctx.Value(originKey{}).(*origin)
	if !derived {
		return p.options.Tracer.Samples(ctx, Undecided)
	}
	if ctx.Value(messageKey{}) != nil {
		return false
	}
	return p.options.Tracer.Samples(ctx, from.decision())
}

// decision is that of the senders before a message with the origin.
func (o origin) decision() Decision {
	switch {
	case o.trace.IsSampled():
		return Sampled
	case o.trace != nil || o.in != nil:
		return NotSampled
	}
	return Undecided
}

// start begins the span of a sampled operation of code with ctx.
func (p *Proc) start(ctx context.Context, o Operation) Span {
	from := originOf(ctx)
	o.Sender = p.senderID(from.in)
	if _, handling := ctx.(*Context); handling { // its trace is that of its span
		ctx = context.Background()
	}
	return p.options.Tracer.Start(ctx, decodeTrace(from.trace), o)
}

// endSpan ends a span with the error of its operation. nil: there is no span.
func endSpan(s Span, err error) {
	if s != nil {
		s.End(Outcome{Err: err})
	}
}

// startHandlerSpan begins the span of a handler, as the parent of the handler's own messages. The
// handled message has a trace. If it has a span already, the Context gets that one.
//
//go:noinline
func (in *instance) startHandlerSpan(ctx *Context, endpoint string, awaited bool) {
	tracer := in.proc.options.Tracer
	if tracer == nil || !ctx.trace.IsSampled() {
		return
	}
	if in.mailbox.tracedCtx == ctx { // the messages after this one need another
		in.mailbox.tracedCtx = nil
	}
	if d := ctx.delivery; d != nil && d.Span != nil {
		ctx.enter(d.Span)
		return
	}
	o := Operation{Kind: OpHandle, Sender: ctx.Sender(), Actor: in.id(), Endpoint: endpoint}
	if awaited {
		o.Kind = OpAnswer
	}
	if s := tracer.Start(context.Background(), ctx.Trace(), o); s != nil {
		in.mailbox.span = s
		ctx.enter(s)
	}
}

// endHandlerSpan ends the span of the handler that has returned; with a deferred answer, once it
// is given.
//
//go:noinline
func (in *instance) endHandlerSpan(later *deferred, err error) {
	s := in.mailbox.span
	in.mailbox.span = nil
	if s == nil {
		return
	}
	if later != nil && err == nil {
		later.setSpan(s)
		return
	}
	s.End(Outcome{Err: err})
}

// enter makes a span that of the handled message, before its handler runs.
func (c *Context) enter(s Span) {
	c.trace = s.Trace().encode()
	c.deadlineCtx.Store(&deadlineContext{Context: &unusedSpan{span: s}})
}

// StartSpan begins the span of an operation with many messages, from code with ctx. It returns the
// context for them. Only a sampled operation is described. The span is nil if there is none.
func (p *Proc) StartSpan(ctx context.Context, describe func() Operation) (context.Context, Span) {
	if p.options.Tracer == nil {
		return ctx, nil
	}
	if !p.samples(ctx) { // its messages begin no traces either
		return &messageContext{ctx, originOf(ctx)}, nil
	}
	s := p.start(ctx, describe())
	if s == nil {
		return &messageContext{ctx, originOf(ctx)}, nil
	}
	return origin{originOf(ctx).in, s.Trace().encode()}.context(s.Context(ctx)), s
}

// StartReceive begins the span of a cast in this process, as the parent of what its handlers send.
// nil: its sender did not sample it.
func (c *Casts) StartReceive(d *Delivery, o Operation) Span {
	tracer := c.p.options.Tracer
	if tracer == nil || !d.Trace.IsSampled() {
		return nil
	}
	o.Kind = OpReceive
	d.Span = tracer.Start(context.Background(), decodeTrace(d.Trace), o)
	if d.Span != nil {
		d.Trace = d.Span.Trace().encode()
	}
	return d.Span
}
