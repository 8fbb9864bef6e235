package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/castnet-io/castnet/bench/local"
)

func main() {
	inbox := flag.Int("inbox", 0, "room of an actor's inbox; 0: the library's default")
	flag.Parse()
	if err := local.Serve(os.Stdin, os.Stdout, maker(*inbox)); err != nil {
		fmt.Fprintf(os.Stderr, "hollywood: %v\n", err)
		os.Exit(1)
	}
}
