// Package spans makes OpenTelemetry spans of messages: an actor.Tracer for a trace.TracerProvider.
// It knows the API of OpenTelemetry only; commands and users bring the provider. Its tests are
// those of otelcastnet, which may import the SDK.
//
//   - SPAN-1 (conventions): A call is a client and a server span. A message without an answer, and
//     a cast, is a producer span, with consumer spans that are its children and link to it. An
//     error is the status.
//   - SPAN-2 (sampling): A message whose trace is not sampled has no span. One without a trace
//     begins one with the probability Options.Roots, outside of handlers. Then the provider
//     samples.
//
// Names and attributes follow version 1.43 of the semantic conventions. Those of castnet alone
// begin with castnet.
package spans
