// Package failpoint lets tests kill this process at a named point or fail a system call.
//
// Code that must survive the death of its process calls [Hit] at critical points:
//
//	failpoint.Hit("launch-forked")
//
// In a normal build, Hit does nothing and the compiler removes it. With -tags failpoint, the
// environment variable CASTNET_FAILPOINT=NAME or NAME:N makes the N-th Hit of that name (the
// first, without N) send SIGKILL to the process. No deferred call runs, and nothing is flushed. A
// malformed value panics at the first Hit, so that no test passes because of a misspelt one. Each
// package's doc.go lists its points. Hit may be called from any goroutine and does not return at
// the N-th hit.
//
// [Refused] precedes a system call that fails when the machine lacks a resource. With
// CASTNET_FAILPOINT_REFUSE=NAME or NAME:N, its first N calls return true (one, without N). The
// caller then acts as if the system call had failed.
package failpoint
