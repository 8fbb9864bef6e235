// Package testmesh gives tests a whole mesh on this machine: a server on loopback, hosts in the
// test's process, clients, and system controllers.
//
//	c := testmesh.Start(t, testmesh.Hosts("a", "b"))
//	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
//
// Everything closes in reverse order when its test ends. Clusters share nothing, so their tests run
// in parallel.
//
// Procs run the test's own binary: its TestMain calls host.Main or proc.Main first.
package testmesh
