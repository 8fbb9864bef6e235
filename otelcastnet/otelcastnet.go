package otelcastnet

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/spans"
)

// Option configures New.
type Option func(*spans.Options)

// Roots sets the share of messages without a trace that begin one, from 0 to 1; 1 by default. The
// draw costs less than a provider's sampler, which sees only these messages.
func Roots(share float64) Option { return func(o *spans.Options) { o.Roots = share } }

// New returns a tracer with the spans of a provider.
func New(provider trace.TracerProvider, options ...Option) (actor.Tracer, error) {
	o := spans.Options{Provider: provider, Roots: 1}
	for _, option := range options {
		option(&o)
	}
	return spans.New(o)
}
