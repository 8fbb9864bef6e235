package fanout

import "sync"

// Each calls f for every item and its index, at most limit at a time. It returns after the last
// call.
func Each[T any](limit int, items []T, f func(i int, item T)) {
	slots := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for i, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i, item)
		})
	}
	wg.Wait()
}
