// Package casting runs `castnet cast`: its flags, the five ways to collect replies, and the
// coverage.
//
// A Spec is a cast as typed. Run resolves its target and sends. Every addressed rank then has a
// reply, a failure, or a reason why it is missing; the coverage lists each reason once, with the
// region of its ranks. nats_command.go prints the same cast as a `nats req` command line for a
// gateway. A throttled cast has its timeout per batch.
package casting
