// Package heapfloor lets the garbage collector rest while the heap of a process is small.
//
// Go collects each time the heap has doubled, and at 4 MiB at first. A process with a few MiB of
// live memory that decodes messages collects all the time. [Start] allows such a heap to grow to
// about 16 MiB before it is collected. A process with more live memory collects as by default, so
// it needs at most 16 MiB more. A GOGC in the environment holds as it is, and GOMEMLIMIT holds in
// any case.
//
// After each collection a cleanup of the runtime looks at the live memory, and changes the limit
// if that makes a difference. It needs no goroutine of its own, and lasts as long as the process.
// So only the main function of a process calls Start.
package heapfloor
