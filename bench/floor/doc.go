// Package floor is the least that can be called an actor in Go: a mutex, two slices that change
// places, and a goroutine that is started when work arrives. It has no names, no supervision, no
// bound on its queue and no address beyond the process. The additional time of a library
// is the price of these features.
//
//	value, err := local.Run(ctx, workload, n, floor.New)
//
// # Concurrency
//
// At most one goroutine runs an actor; an idle actor has none. The goroutine ends when the queue is
// empty, so there is nothing for Close to stop once a workload is done.
package floor
