// Package otelcastnet makes OpenTelemetry spans of the messages, casts and spawns of a program. It
// needs the API of OpenTelemetry only; the program brings the provider.
//
//	tracer, err := otelcastnet.New(provider, otelcastnet.Roots(0.01))
//	net, err := mesh.Connect(ctx, mesh.Options{Tracer: tracer})
//
// Procs of the program get one by proc.MainWith. A handler finds its span in its Context, as
// trace.SpanFromContext does, and spans that it starts with the Context are children.
//
// A message from outside of handlers that has no trace begins one with the probability of Roots. A
// message of a trace has a span if the trace is sampled. After that the sampler of the provider
// decides. A span in the context comes before the trace of actor.WithTrace. The spans, their names
// and their attributes are in docs/traces.md.
package otelcastnet
