package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/cmd/internal/otlp"
	"github.com/castnet-io/castnet/internal/builtin"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/heapfloor"
)

func main() {
	// a launched proc never returns
	options := proc.MainOptions{StartTracer: startTracer("castnet-proc", os.Getenv, os.Stderr)}
	proc.MainWith(options, builtin.Defs()...)
	heapfloor.Start(os.Getenv)
	os.Exit(run(os.Args[1:], os.Getenv, os.Stderr))
}

// startsTracer returns a tracer, or nil, and its end.
type startsTracer func(context.Context) (actor.Tracer, func(context.Context) error, error)

// startTracer returns the start of the tracer of a service, as the environment says.
func startTracer(service string, getenv func(string) string, stderr io.Writer) startsTracer {
	return func(ctx context.Context) (actor.Tracer, func(context.Context) error, error) {
		return otlp.Start(ctx, service, cli.Version(), getenv, func(err error) {
			fmt.Fprintf(stderr, "%s: %v\n", service, err)
		})
	}
}

// run is main, callable from tests.
func run(args []string, getenv func(string) string, stderr io.Writer) int {
	root := newRoot(getenv, stderr)
	root.SetArgs(args)
	return cli.Execute(context.Background(), root, stderr)
}
