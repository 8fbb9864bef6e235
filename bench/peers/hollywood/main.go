package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/remote"
)

func main() {
	inbox := flag.Int("inbox", 0, "room of an actor's inbox; 0: the library's default")
	flag.Parse()
	if err := serve(*inbox, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "hollywood: %v\n", err)
		os.Exit(1)
	}
}

// serve runs the workloads within one process or, with arguments, plays the part they name.
func serve(inbox int, args []string) error {
	if len(args) > 0 {
		return remote.Play(args, os.Stdin, os.Stdout, library())
	}
	return local.Serve(os.Stdin, os.Stdout, maker(inbox))
}
