// Package castnet is the root of a mesh of actors on NATS. It has no code, only this map of the
// packages and the tests of the whole repository.
//
// A host is a machine that runs hostd. A proc is an OS process that a host supervises. An actor
// lives in a proc. A mesh is an N-dimensional array of hosts, procs or actors. A cast sends one
// message to a region of an actor mesh: one publish, and replies folded on their way home. An ID is
// an address: its NATS subject is a function of it, without any lookup.
//
// Start with package mesh, which a program holds, and package cast. Package actor is for writing
// actors. agent/proc has the one line by which a program becomes a worker. Package subjects is the
// contract for plain NATS clients.
//
// # Contract of the repository
//
//   - REPO-1 (packages): Every import is an edge of the package DAG, and every edge of the DAG has
//     a reason (deps_test.go). Every package has exactly one package comment, in doc.go
//     (pkgdoc_test.go).
//   - REPO-3 (sleeps and skips): Every sleep and every skip of a test is listed with a reason
//     (sleeps_test.go). Sleeps in a bubble of testing/synctest take no time and need none.
//   - REPO-4 (decoders): Every reader of bytes from the bus outside internal/wire is listed with
//     its fuzzer, which holds it to the bound of WIRE-6 (decoders_test.go).
package castnet
