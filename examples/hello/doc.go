// Command hello is the ten-line program of the README: a counter in every proc, asked one by one
// and all together.
//
//	make build
//	bin/hostd &
//	go run ./examples/hello
//
// It takes every hostd it finds where NATS_URL says, or the one of this machine, starts eight procs
// on each that run this very program, and puts a counter into each of them. When it ends, so do
// they. An error goes to stderr, with exit code 1.
package main
