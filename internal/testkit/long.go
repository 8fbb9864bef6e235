package testkit

import "os"

// Long reports whether the long series run: every seed of a simulation, the largest meshes. They
// compute for minutes, so `go test ./...` runs a part of each; `make long` and CI run all of it.
func Long() bool { return os.Getenv("CASTNET_TEST_LONG") != "" }
