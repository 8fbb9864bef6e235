package inspect

import (
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// askTimeout bounds the wait for the reports of owners, hosts and procs.
	askTimeout = 2 * time.Second
	// maxConcurrentAsks bounds the parties asked at a time.
	maxConcurrentAsks = 64
)

// askEach calls ask for each index below n, some at a time, and waits for all.
func askEach(n int, ask func(i int)) {
	var all errgroup.Group
	all.SetLimit(maxConcurrentAsks)
	for i := range n {
		all.Go(func() error {
			ask(i)
			return nil
		})
	}
	_ = all.Wait() // ask returns no error
}
