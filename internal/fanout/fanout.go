package fanout

import "golang.org/x/sync/errgroup"

// Each calls f for every item and its index, at most limit at a time. It returns after the last
// call.
func Each[T any](limit int, items []T, f func(i int, item T)) {
	var g errgroup.Group
	g.SetLimit(limit)
	for i, item := range items {
		g.Go(func() error {
			f(i, item)
			return nil
		})
	}
	_ = g.Wait() // f has no error
}
