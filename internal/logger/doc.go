// Package logger provides the logger of programs that set none.
//
// # Use
//
//	o.Log = logger.OrStderr(o.Log)
//
// The zero zerolog.Logger discards everything, so a program without a logger would miss failures.
// OrStderr replaces it by a logger that writes warnings and errors to stderr. For silence, pass
// zerolog.Nop().
//
// OrStderr may be called on any goroutine and keeps no state.
package logger
