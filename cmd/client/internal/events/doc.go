// Package events prints what happens to hosts, meshes, procs and actors.
//
// A View prints the events of an inspect.EventWatch and past failures. It prints each end of a rank
// once, with coordinates where the shape of the mesh is known.
//
// A View belongs to one goroutine.
package events
