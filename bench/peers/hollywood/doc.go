// Command hollywood runs the workloads of bench/local on github.com/anthdm/hollywood: one engine
// with its defaults, actors sent to by the engine from outside and by their context from inside,
// questions asked by Request.
//
//	hollywood [-inbox n]
//	hollywood receive
//	hollywood send "address"
//
// -inbox is how many messages an actor's inbox has room for before it grows; 0 is the default of
// the library. An engine has no end of its own: it is garbage when the workload is done.
//
// With arguments it is an end of the workloads of bench/remote: its own remoting with its defaults,
// but for a read buffer of 64 MiB. Messages are BytesValue of protobuf.
package main
