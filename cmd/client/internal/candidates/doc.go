// Package candidates lists the names that a shell completion offers.
//
// Each function has the type app.Lookup: it asks the bus for the meshes, hosts, worlds, ranks,
// actors or endpoints that fit one position of a command line. A function returns what it has found
// beside an error, because a partial list is good enough for a completion.
package candidates
