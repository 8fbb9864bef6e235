package inspect

import (
	"time"

	"github.com/castnet-io/castnet/internal/fanout"
)

const (
	// askTimeout bounds the wait for the reports of owners, hosts and procs.
	askTimeout = 2 * time.Second
	// maxConcurrentQueries bounds the parties asked at a time.
	maxConcurrentQueries = 64
)

// askEach calls ask for every item and its index, some at a time, and waits for all.
func askEach[T any](items []T, ask func(i int, item T)) {
	fanout.Each(maxConcurrentQueries, items, ask)
}
