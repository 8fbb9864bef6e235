package main

import (
	"context"
	"io"
	"os"

	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/internal/builtin"
	"github.com/castnet-io/castnet/internal/cli"
)

func main() {
	proc.Main(builtin.Defs()...) // a proc that a host launched with this binary goes no further
	os.Exit(run(os.Args[1:], os.Getenv, os.Stderr))
}

// run is main for the tests, too.
func run(args []string, getenv func(string) string, stderr io.Writer) int {
	root := newRoot(getenv, stderr)
	root.SetArgs(args)
	return cli.Execute(context.Background(), root, stderr)
}
