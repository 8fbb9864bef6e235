package main

import (
	"fmt"
	"os"

	"github.com/castnet-io/castnet/bench/local"
)

func main() {
	if err := local.Serve(os.Stdin, os.Stdout, newSystem); err != nil {
		fmt.Fprintf(os.Stderr, "goakt: %v\n", err)
		os.Exit(1)
	}
}
