// Command hello is the program of the README with its errors handled: a counter in every proc, one
// called alone, and a slice of them folded into one sum.
//
//	make build
//	bin/hostd &
//	go run ./examples/hello
//
// It uses every hostd on the bus of NATS_URL, or the hostd of this machine. It starts four procs
// on each, which run this program, with a counter in each proc. They end with the program. An error
// goes to stderr, with exit code 1.
package main
