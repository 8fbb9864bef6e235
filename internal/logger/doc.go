// Package logger is where a program logs that says nothing of it.
//
// # Use
//
//	o.Log = logger.OrStderr(o.Log)
//
// The zero zerolog.Logger discards everything, so a program that set no logger would never learn of a failure. OrStderr
// puts one in its place that writes warnings and errors to stderr. A program that wants silence passes zerolog.Nop().
//
// OrStderr may be called on any goroutine and keeps no state.
package logger
