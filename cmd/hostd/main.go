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
	proc.Main(builtin.Defs()...) // a launched proc never returns
	os.Exit(run(os.Args[1:], os.Getenv, os.Stderr))
}

// run is main, callable from tests.
func run(args []string, getenv func(string) string, stderr io.Writer) int {
	root := newRoot(getenv, stderr)
	root.SetArgs(args)
	return cli.Execute(context.Background(), root, stderr)
}
