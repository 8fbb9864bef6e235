// Command locks runs the tests of packages with mutexes that record the order in which goroutines lock
// them, and reports each pair of locks that is taken in both orders: two goroutines can block each
// other there for ever, although no test did.
//
//	go run ./scripts/locks ./actor ./cast
//
// The mutexes are those of github.com/sasha-s/go-deadlock, put in place by go build -overlay: no file
// of the repository changes. hostd and procs that a test builds and starts record, too. Tests fail that
// count allocations; only a package that does not compile is an error here. The exit code is 0 without a
// report, 1 with one, and 2 when the tests could not be run.
package main
