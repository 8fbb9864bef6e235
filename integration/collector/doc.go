// Package collector sends the spans of a mesh of processes to the OTLP receiver of the OpenTelemetry
// collector.
//
//	go test ./...
//
// The receiver decodes and checks the requests of every process. The spans that it hands on must
// tell of the cast that was made: asked, answered, failed and missing ranks, in one trace.
package collector
