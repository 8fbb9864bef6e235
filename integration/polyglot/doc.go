// Package polyglot tests that programs in other languages can use a live mesh: the nats command, a
// Node.js program (node/) and a Python one (python/). It contains tests only, run by `make
// polyglot`.
//
// # How it works
//
// The tests start a NATS server, two hostd processes, and `castnet up` for each mesh, with the
// programs in bin/. Then they run each language's own test runner against them. All languages read
// their cases from spec/vectors.json. node/rank.mjs and python/rank.py are ranks of a mesh.
//
// # Contract
//
//   - PLY-1 (spec): spec/vectors.json has the bytes of the code, spec/wire.cddl its numbered
//     structs with their keys and its headers, and spec/asyncapi.yaml the addresses of package
//     subjects.
//   - PLY-4 (page): Each command and program on docs/any-nats-client.md is run, and prints the output
//     on the page.
//
// # Details
//
// `go test -run TestVectors -update` rewrites spec/vectors.json, and its diff is a change of the
// wire. spec/wire.cddl has one rule for each struct with numbered keys in internal/wire and cast,
// and no other. A missing tool fails a test, and the failure says what to install. No test skips.
// No process is left, and every wait has a deadline.
//
// The answer of a gather has no struct of PLY-1; the tests read it from the bus.
package polyglot
