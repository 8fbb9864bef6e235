// Package target parses the targets of commands and resolves them on the bus.
//
// A Target is `MESH` or `MESH[region]` as typed; its syntax is checked before anything is sent. A
// Resolved is the live mesh with the ranks of the region. A HostSelector picks hosts by name and by
// label. Errors carry the exit code of the client: 3 for what does not exist, 4 if silent hosts may
// have it.
package target
