// Package events shows what happens to hosts, meshes, procs and actors.
//
// Subscribe receives new events from the bus, and the state changes of hosts that the bus does not
// carry. PastFailures asks the owners of meshes for the failures that they remember. A View prints
// events, each end of a rank once, with coordinates where the shape of the mesh is known.
package events
