package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/agent/proc"
)

// The test's own binary is what its procs and children run.
func TestMain(m *testing.M) {
	proc.Main(actors())
	if name := os.Getenv(roleEnv); name != "" {
		os.Exit(play(name, os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}
