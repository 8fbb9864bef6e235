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
//   - PLY-1 (vectors): spec/vectors.json has the bytes of the present Go code. `go test -run
//     TestVectors -update` rewrites it, and its diff is a change of the wire.
//   - PLY-2 (CDDL): spec/wire.cddl has one rule for each struct with numbered keys in internal/wire
//     and cast, with the same keys, and no other rule. Its headers are those of the code.
//   - PLY-3 (addresses): spec/asyncapi.yaml has the addresses that package subjects builds.
//   - PLY-4 (page): Each shell command and each program on docs/any-nats-client.md is run, and
//     prints the output on the page.
//   - PLY-5 (tools): A missing tool fails a test, and the failure says what to install. No test
//     skips.
//   - PLY-6 (ends): No process is left, and every wait has a deadline.
//   - PLY-7 (README): Each shell command of the README is run, from the first to the last, except
//     make test.
//
// The answer of a gather has no struct of PLY-2; the tests read it from the bus.
package polyglot
