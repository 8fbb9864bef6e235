package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/agent/proc"
)

// The procs and children run the test's own binary.
func TestMain(m *testing.M) {
	proc.Main(actors())
	if name := os.Getenv(roleEnv); name != "" {
		os.Exit(play(name, os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}
