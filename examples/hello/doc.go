// Command hello is the ten-line program of the README: a counter in every proc, called one by one
// and all together.
//
//	make build
//	bin/hostd &
//	go run ./examples/hello
//
// It uses every hostd on the bus of NATS_URL, or the hostd of this machine. It starts eight procs
// on each, which run this program, with a counter in each proc. They end with the program. An error
// goes to stderr, with exit code 1.
package main
