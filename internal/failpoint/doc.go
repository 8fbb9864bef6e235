// Package failpoint lets tests kill this process at a named instant, or have the kernel refuse it something.
//
// Code that must survive its own death calls [Hit] where dying hurts:
//
//	failpoint.Hit("launch-forked")
//
// In a normal build that is nothing, and the compiler removes it. In one made
// with -tags failpoint, the environment variable CASTNET_FAILPOINT=NAME or
// NAME:N makes the N-th Hit of that name (the first, without N) send SIGKILL to
// the process: no deferred call runs, nothing is flushed. A value that is not
// of this form panics at the first Hit, so that no test passes because of a
// misspelt one. Each package's doc.go lists its points. Hit may be called from
// any goroutine and does not return at the N-th hit.
//
// [Refused] stands before a system call that fails when a machine is short of
// something. CASTNET_FAILPOINT_REFUSE=NAME or NAME:N makes the first N calls of
// it true (one, without N), and the caller does as if the kernel had said so.
package failpoint
