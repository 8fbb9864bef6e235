// Package polyglot lets programs that know nothing of Go speak to a live mesh: the nats command, a
// Node.js program (node/) and a Python one (python/). It has no code of its own; all of it is
// tests, run by `make polyglot`.
//
// # How it works
//
// The tests start a NATS server, two hostd processes and `castnet up` for each mesh, all as a user
// would with the programs in bin/, and then run each language's own test runner against them. They
// read their cases from spec/vectors.json, so that all languages have the same ones. node/rank.mjs
// and python/rank.py are ranks of a mesh themselves.
//
// # Contract
//
//   - PLY-1: spec/vectors.json is what the Go code makes today; `go test -run TestVectors -update`
//     writes it anew, and its diff is a change of the wire.
//   - PLY-2: spec/wire.cddl has a rule with the same keys for each struct with numbered keys in
//     internal/wire and cast, and no other; the headers it names are those the code names. The
//     answer of a gather has no such struct and is read from the bus.
//   - PLY-3: spec/asyncapi.yaml has the addresses that package subjects builds.
//   - PLY-4: each shell command and each program on docs/any-nats-client.md is run, and prints what
//     the page says.
//   - PLY-5: a missing tool fails a test, and the failure says what to install. Nothing skips.
//   - PLY-6: no process is left, and every wait has a deadline.
//   - PLY-7: each shell command of the README is run from the first to the last, but for make test.
package polyglot
