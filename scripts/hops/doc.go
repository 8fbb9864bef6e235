// Command hops prints the functions of castnet that run in one warm call to another process.
//
//	go run -cover -covermode=atomic \
//		-coverpkg=./scripts/hops,./actor,./internal/link,./internal/wire,./bus,./subjects ./scripts/hops
//
// It calls an actor of a second process, over a NATS server of its own. Before each of 20 calls
// both processes set their coverage counters to zero, and after the call they write them. A
// function belongs to a side if it ran there in all calls. So background work does not count.
package main
