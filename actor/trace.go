package actor

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
)

// Trace is the place of a message in a distributed trace: a W3C trace context without tracestate.
// The zero Trace stands for none.
//
// A message sent with a context carries its trace. The context of a handler has the trace of the
// handled message, and WithTrace gives one to any context. Casts carry it to each rank. Messages to
// ports carry none, except to those of plain clients.
type Trace struct {
	TraceID [16]byte
	SpanID  [8]byte // the span that caused the message
	Flags   byte    // bit 0: the trace is sampled
}

// HeaderTrace is the header of a plain client's trace.
const HeaderTrace = wire.HeaderTrace

// HeaderTraceDest is the header of a plain client's subject for the reports of servers.
const HeaderTraceDest = wire.HeaderTraceDest

// The two flags that W3C defines: sampled, and random trace ID.
const traceFlags = 0b11

// ParseTrace parses a traceparent of any version. It clears flags that W3C does not define.
func ParseTrace(traceparent string) (Trace, error) {
	var version, flags [1]byte
	var t Trace
	const fields = 4
	parts := strings.SplitN(traceparent, "-", fields+1) // a later version may have more
	ok := len(parts) >= fields && decodeHex(version[:], parts[0]) && decodeHex(t.TraceID[:], parts[1]) &&
		decodeHex(t.SpanID[:], parts[2]) && decodeHex(flags[:], parts[3])
	t.Flags = flags[0] & traceFlags
	if !ok || !t.IsValid() || version[0] == 0xff || version[0] == 0 && len(parts) > fields {
		return Trace{}, fmt.Errorf(
			"traceparent %.100q: want 00, 32, 16 and 2 lower-case hex digits with - between, and no ID of zeros",
			traceparent)
	}
	return t, nil
}

// decodeHex fills dst with lower-case hex digits, or returns false.
func decodeHex(dst []byte, text string) bool {
	if len(text) != 2*len(dst) || strings.ContainsAny(text, "ABCDEF") {
		return false
	}
	_, err := hex.Decode(dst, []byte(text))
	return err == nil
}

// IsValid reports whether both IDs are set.
func (t Trace) IsValid() bool { return t.TraceID != [16]byte{} && t.SpanID != [8]byte{} }

// String is the trace as a traceparent; "" if it is not valid.
func (t Trace) String() string {
	if !t.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%x-%x-%02x", t.TraceID, t.SpanID, t.Flags)
}

// TraceIn returns the trace in the headers of a plain client; the zero Trace if they have none, or
// several, or a malformed one.
func TraceIn(h bus.Header) Trace {
	var all []string
	for key, values := range h {
		if strings.EqualFold(key, HeaderTrace) {
			all = append(all, values...)
		}
	}
	if len(all) != 1 {
		return Trace{}
	}
	t, err := ParseTrace(all[0])
	if err != nil { // W3C has it ignored
		return Trace{}
	}
	return t
}

// AddTo adds a valid trace to the headers for a plain client.
func (t Trace) AddTo(h bus.Header) {
	if t.IsValid() {
		h.Set(HeaderTrace, t.String())
	}
}

// WithTrace returns a context whose messages carry a trace; if it is invalid, none. Their sender is
// that of ctx.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return origin{originOf(ctx).in, t.encode()}.context(ctx)
}

// traceDestKey is the context key of the subject of WithTraceDest.
type traceDestKey struct{}

// WithTraceDest returns a context whose casts, if they are sampled, make the servers on their way
// report to a subject of a plain client.
func WithTraceDest(ctx context.Context, subject string) context.Context {
	return context.WithValue(ctx, traceDestKey{}, subject)
}

// TraceOf returns the trace that messages sent with ctx carry.
func TraceOf(ctx context.Context) Trace { return decodeTrace(originOf(ctx).trace) }

// Trace is the trace of the message.
func (c *Context) Trace() Trace { return decodeTrace(c.trace) }

// encode returns the trace as it travels; nil if it is not valid.
func (t Trace) encode() *wire.Trace {
	if !t.IsValid() {
		return nil
	}
	var w wire.Trace
	b := append(w[:0], t.TraceID[:]...)
	b = append(b, t.SpanID[:]...)
	w[len(b)] = t.Flags
	return &w
}

func decodeTrace(w *wire.Trace) (t Trace) {
	if w != nil {
		copy(t.TraceID[:], w[:16])
		copy(t.SpanID[:], w[16:24])
		t.Flags = w[24]
	}
	return t
}

// origin is the part of a context that its messages take over. It does not change, because kept
// contexts have it, too.
type origin struct {
	in    *instance   // the actor that sends; nil: the client of a proc
	trace *wire.Trace // nil: none
}

// originKey is the context key of an *origin. Contexts derived from an actor's Context inherit it.
type originKey struct{}

func originOf(ctx context.Context) origin {
	if c, is := ctx.(*Context); is { // most are
		return c.origin
	}
	return originOfDerived(ctx)
}

//go:noinline
func originOfDerived(ctx context.Context) origin {
	if o, is := ctx.Value(originKey{}).(*origin); is {
		return *o
	}
	return origin{}
}

// context returns a context whose messages have this origin.
func (o origin) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, originKey{}, &o)
}

// ext is the trace as the ext of a message.
func (o origin) ext() []byte {
	if o.trace == nil {
		return nil
	}
	return o.trace[:]
}

// lifetimeWithTrace is the context of the actor, with the trace of the message.
func (c *Context) lifetimeWithTrace() context.Context {
	if c.trace == nil {
		return c.in.lifetime()
	}
	return c.origin.context(c.in.lifetime())
}
