package testproc

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
)

// Spans is a tracer that samples all operations and keeps their spans.
type Spans struct {
	mu  sync.Mutex
	all []*Span
}

// Span is a span of Spans.
type Span struct {
	Op      actor.Operation
	Parent  actor.Trace // zero: it begins a trace
	Own     actor.Trace
	Outcome actor.Outcome
	Ends    int

	of *Spans
}

// SpanKey is the context key of the *Span of a handler.
type SpanKey struct{}

// Samples samples all but unsampled traces.
func (b *Spans) Samples(_ context.Context, so actor.Decision) bool { return so != actor.NotSampled }

// Start begins a span.
func (b *Spans) Start(_ context.Context, parent actor.Trace, o actor.Operation) actor.Span {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &Span{of: b, Op: o, Parent: parent, Own: parent}
	n := uint64(len(b.all) + 1)
	if !parent.IsValid() {
		binary.BigEndian.PutUint64(s.Own.TraceID[:], n)
	}
	binary.BigEndian.PutUint64(s.Own.SpanID[:], n)
	s.Own.Flags = 1
	b.all = append(b.all, s)
	return s
}

// Trace is the place of the span.
func (s *Span) Trace() actor.Trace { return s.Own }

// Context returns ctx with the span.
func (s *Span) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, SpanKey{}, s)
}

// End ends the span.
func (s *Span) End(o actor.Outcome) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.Outcome = o
	s.Ends++
}

// Ended returns the ended spans in the order of their beginnings, once there are n of them.
func (b *Spans) Ended(t testing.TB, n int) (all []Span) {
	t.Helper()
	testkit.Until(t, "the spans have ended", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		all = nil
		for _, s := range b.all {
			if s.Ends > 0 {
				all = append(all, *s)
			}
		}
		return len(all) >= n
	})
	return all
}

// Clear forgets all spans.
func (b *Spans) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = nil
}

// Kinds are the kinds of spans.
func Kinds(all []Span) (kinds []actor.OperationKind) {
	for _, s := range all {
		kinds = append(kinds, s.Op.Kind)
	}
	return kinds
}
