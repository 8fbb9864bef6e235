// Package build identifies programs: two processes with one id run the same code, so a caller can
// tell whether the procs it asked for are of its own making. It is apart from package launch
// because clients need it, and clients carry no process launcher.
//
// ID and Of read files only; they may be called on any goroutine. A file that cannot be read is
// an error that names it.
package build
