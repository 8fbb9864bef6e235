// Package builtin holds the actors that every hostd can run without a user program. They serve for
// first steps, checks of an installation, bench and demo, and for programs without castnet. A mesh
// of them is spawned with the command agent.Builtin.
//
//	proc.Main(builtin.Defs()...)   // in hostd's main
//
// echo replies with its message. counter starts at its parameter, an integer. Its endpoints are add
// (an integer; returns the new count), get, and reset (to the start); both return the count. All
// accept JSON and CBOR, so any NATS client can call them.
//
// # A rank served by any program
//
// plain stands for a program that serves a NATS subject, such as a script or `nats reply`. Its
// parameters are {"subject":"work.{rank}"}. {rank} is the rank in the mesh, {mesh} the whole mesh
// ID, {actor} the whole actor name. It has two endpoints:
//
//	request  sends the message as a request, and answers with the JSON of the reply
//	publish  publishes the message without waiting, whether or not a program listens
//
// The message is JSON. An empty message of a plain client is null. The headers are:
//
//   - Content-Type
//   - Castnet-Rank
//   - Castnet-Point: host=0,gpu=3, the actor's place in its mesh
//   - Castnet-From: the calling actor; absent for a plain client
//   - traceparent: the trace of the message, if it has one
//   - Castnet-TTL: time left in seconds, such as 29.997s; request always has it, publish with a
//     deadline
//
// The reply may be any JSON. null is no value. A number without point and exponent is an integer.
//
// # Contract
//
//   - BLT-2 (overflow): A sum that would overflow a counter is an error, and the count stays.
//   - BLT-3 (JSON): plain forwards its message unchanged or refuses it as a bad message: bytes,
//     NaN and infinities have no JSON form. It returns the program's reply, which is one JSON
//     value, or an error.
//   - BLT-5 (subject): plain uses one literal subject, outside castnet's root, inboxes and the
//     server's own. Another subject is refused at the actor's start.
//
// # Details
//
// Errors of plain are a Nats-Service-Error with its code, an empty or malformed reply, a subject
// without listener, and silence until the deadline. A program gets each message at most once. A
// message lost by NATS is not repeated.
//
// plain handles one message at a time, in mailbox order, on the data connection of its proc. It
// delays only its own senders. An error without a waiting caller is logged, and the actor
// continues.
package builtin
