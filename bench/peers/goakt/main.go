package main

import (
	"fmt"
	"os"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/remote"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "goakt: %v\n", err)
		os.Exit(1)
	}
}

// serve runs the workloads within one process or, with arguments, plays the part they name.
func serve(args []string) error {
	if len(args) > 0 {
		return remote.Play(args, os.Stdin, os.Stdout, library())
	}
	return local.Serve(os.Stdin, os.Stdout, newSystem)
}
