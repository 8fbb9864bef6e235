// Package builtin holds the actors that every hostd can run without a program of the user's: for
// a first look, for checks of an installation, for bench and demo. A mesh of them is spawned with
// the command agent.Builtin.
//
//	proc.Main(builtin.Defs()...)   // in hostd's main
//
// echo answers with what it was sent. counter starts at its parameter, an integer, and has the
// endpoints add (an integer; the new count), get and reset (to its start; both answer the count).
// All speak JSON and CBOR alike, so that any NATS client can ask them.
//
//   - BLT-1: the state of one actor is its own: ranks share nothing.
//   - BLT-2: the sum of a counter wraps for nobody: what would overflow is an error, and the count
//     stays.
package builtin
