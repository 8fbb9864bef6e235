// Package builtin holds the actors that every hostd can run without a program of the user's: for
// a first look, for checks of an installation, for bench and demo, and for programs that know nothing of
// castnet. A mesh of them is spawned with the command agent.Builtin.
//
//	proc.Main(builtin.Defs()...)   // in hostd's main
//
// echo answers with what it was sent. counter starts at its parameter, an integer, and has the
// endpoints add (an integer; the new count), get and reset (to its start; both answer the count).
// All speak JSON and CBOR alike, so that any NATS client can ask them.
//
// # A rank served by any program
//
// plain stands for a program that serves a NATS subject: a script, or `nats reply`. Its parameters are
// {"subject":"work.{rank}"}, where {rank} is the rank in the mesh, {mesh} the mesh's whole ID and {actor} the
// actor's whole name. It has two endpoints:
//
//	ask   sends the message as a request, and answers with the JSON that is replied
//	tell  publishes the message, and waits for nothing: nobody learns whether somebody listens
//
// The message is JSON, with the headers Content-Type, Castnet-Rank, Castnet-Point (host=0,gpu=3; where the
// actor is in its mesh), Castnet-From (the actor that asks; a plain client has none) and Castnet-TTL (the
// time left in seconds, such as 29.997s; ask always has it, tell when its message has a deadline). An empty
// message of a plain client is null.
//
// What is replied may be any JSON: null says nothing, a number without point and exponent is an integer.
//
// # Contract
//
//   - BLT-1: the state of one actor is its own: ranks share nothing.
//   - BLT-2: the sum of a counter wraps for nobody: what would overflow is an error, and the count
//     stays.
//   - BLT-3: plain hands on the message that it got, or refuses it: bytes, NaN and infinities have no JSON
//     and are a bad message.
//   - BLT-4: plain answers with what the program says, or with an error: its Nats-Service-Error, with the
//     code in the text; a reply that is empty, or not one JSON value that castnet carries; nobody who
//     serves, which names the subject; silence, which ends with the deadline.
//   - BLT-5: plain speaks on one literal subject, outside of castnet's root, of inboxes and of the server's
//     own. Another is refused when the actor is made.
//   - BLT-6: a program gets each message once at most: what NATS loses is lost, and nothing is repeated.
//
// plain asks one message at a time, in the order of its mailbox, on its proc's data connection; it holds up
// nobody but who sends to it. An error that nobody waits for is logged, and it lives.
package builtin
