// Command sieve finds primes with a chain of actors that grows as it finds them: it shows actors that
// make others in other processes, refs in messages, and a pipeline over processes.
//
//	go run ./examples/sieve
//
// It starts a NATS server and two hosts in this process, and on each host four procs, which are
// processes that run this very program, with a Station in each. Numbers run through a chain of filters.
// The first number that gets through to the end of the chain is a prime: it becomes a new filter, on
// the station after that of the last one, and takes its multiples out of what comes next. A filter
// whose prime squared is beyond the limit is the last: what reaches it is prime. Numbers enter in
// batches, 16 of them at most on their way; one enters when another has come out.
//
// A filter is a child of its station. One that fails fails its station, and whoever watches the
// stations, which is this program, hears of it and stops.
//
// Everything ends with the program: at the end, with Ctrl-C (exit code 130), and when it is killed.
// An error goes to stderr, with exit code 1.
package main
