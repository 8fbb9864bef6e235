// Command sieve finds primes with a growing chain of actors. It shows actors that spawn others in
// other processes, refs in messages, and a pipeline over processes.
//
//	go run ./examples/sieve
//
// It starts a NATS server and two hosts in this process. Each host has four procs, processes with
// this program and a Station each. Numbers run through a chain of filters. The first number at the
// end of the chain is a prime. It becomes a new filter on the next station, and removes its
// multiples.
//
// If the square of a filter's prime exceeds the limit, the filter is the last: its remaining
// numbers are primes. Numbers enter in batches, at most 16 at a time. A new batch enters when
// another one leaves.
//
// A filter is a child of its station. If a filter fails, its station fails. The program watches the
// stations and then stops.
//
// Everything ends with the program: at the end, with Ctrl-C (exit code 130), and when it is killed.
// An error goes to stderr, with exit code 1.
package main
