// Package castnet is the front door of a mesh of actors on NATS; it holds no
// code, only the map of the packages that do, and the tests that keep the map
// true.
//
// A host is a machine running hostd. A proc is an OS process that a host
// supervises. An actor lives in a proc. A mesh is an N-dimensional array of
// any of the three, and a cast sends one message to a region of an actor mesh:
// one publish out, the replies folded on their way home. An ID is an address:
// the NATS subject is a function of it, so nothing is ever looked up.
//
// Start with package mesh, which is what a program holds, and package cast,
// which is what it does with it. Package actor is what the other end is
// written in; agent/proc is the one line that lets a program be spawned.
// Package subjects is the contract for anyone who speaks plain NATS.
//
// The repository keeps four invariants here, in deps_test.go, pkgdoc_test.go,
// sleeps_test.go and decoders_test.go:
//
//   - REPO-1: every import is an edge of the package DAG, and every edge of the
//     DAG has a reason.
//   - REPO-2: every package has exactly one package comment, in doc.go.
//   - REPO-3: what sleeps, and what skips a test, is listed with a reason. Sleeps
//     in a bubble of testing/synctest take no time and need none.
//   - REPO-4: what reads bytes that may have come over the bus, and not through
//     internal/wire, is listed with its fuzzer, which holds it to what WIRE-6 allows.
package castnet
