// Package otlp exports the spans of a command by OTLP over HTTP, as the OTEL_* variables of the
// environment say. Without OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
// OTEL_TRACES_EXPORTER=otlp it does nothing.
//
//   - OTLP-1 (spans leave): Stop sends the ended spans, within its context. An unreachable
//     collector delays no message: its spans wait in a bounded queue and are dropped.
//   - OTLP-2 (one decision): The share of OTEL_TRACES_SAMPLER_ARG begins a trace. Messages of a
//     sampled trace have spans in each process that exports, and other messages none.
//
// The SDK reads the other variables, such as OTEL_SERVICE_NAME and OTEL_BSP_SCHEDULE_DELAY. Start
// refuses values that it would ignore.
package otlp
