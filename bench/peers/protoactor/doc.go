// Command protoactor runs the workloads of bench/local on github.com/asynkron/protoactor-go: one
// actor system with its defaults, actors sent to by the root context from outside and by their own
// from inside, questions asked by RequestFuture.
//
// Its log is discarded; nothing else is changed. Actors end with their system, of which Shutdown
// is the only end there is.
//
//	protoactor receive
//	protoactor send "address"
//
// With arguments it is an end of the workloads of bench/remote: its own remoting with its defaults.
// Messages are BytesValue of protobuf.
package main
