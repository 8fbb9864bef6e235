// Package heldmesh starts and holds the meshes of `castnet up`, `spawn` and `adopt`.
//
// A Spec is the validated command line. Run, Spawn and Adopt print a banner with example commands,
// then the events of the mesh, until it ends or the command is interrupted. The mesh ends with the
// command unless it is detached. Run starts a hostd when no bus is found, and stops it after the
// mesh.
package heldmesh
