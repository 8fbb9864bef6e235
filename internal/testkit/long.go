package testkit

import "os"

// Long reports whether the long series run: all seeds of simulations and the largest meshes. They
// take minutes, so `go test ./...` runs a part. `make long` runs all. CI runs all but most seeds of
// the links.
func Long() bool { return os.Getenv("CASTNET_TEST_LONG") != "" }
