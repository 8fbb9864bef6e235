// Command goakt runs the workloads of bench/local on github.com/tochemey/goakt/v4: one actor system
// with its defaults. Code that is not an actor tells and asks by an actor that does nothing else,
// which is faster than without one; actors send by their context.
//
// Its log is discarded, and starting an actor is tried once, as in its own benchmarks. An actor's
// first code is PreStart, which Spawn waits for.
//
//	goakt receive
//	goakt send "address"
//
// With arguments it is an end of the workloads of bench/remote: its own remoting with its defaults,
// sent to by an actor, too. Messages are BytesValue of protobuf.
package main
