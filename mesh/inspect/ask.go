package inspect

import (
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// askTimeout bounds the wait for the reports of owners, hosts and procs.
	askTimeout = 2 * time.Second
	// maxConcurrentQueries bounds the parties asked at a time.
	maxConcurrentQueries = 64
)

// askEach calls ask for each index below n, some at a time, and waits for all.
func askEach(n int, ask func(i int)) {
	var all errgroup.Group
	all.SetLimit(maxConcurrentQueries)
	for i := range n {
		all.Go(func() error {
			ask(i)
			return nil
		})
	}
	_ = all.Wait() // ask returns no error
}
