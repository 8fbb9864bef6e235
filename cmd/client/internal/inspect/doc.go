// Package inspect answers what a mesh is and how it is, from the reports of its owner, its hosts and
// its procs.
//
// Mesh asks all parties at once, for at most InspectTimeout, and merges their reports into a View.
// The owner's report comes first; without one, the hosts' reports count. Explanation is a pure
// function of a View. Procs, Actors, Links and Meshes are the lists of single commands.
package inspect
