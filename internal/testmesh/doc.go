// Package testmesh gives tests a whole mesh on this machine: a server on loopback, hosts in the
// test's own process, clients, and system controllers.
//
//	c := testmesh.Start(t, testmesh.Hosts("a", "b"))
//	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
//
// Everything starts with the test that asks for it and closes when that test ends, in the reverse
// order. Clusters share nothing, so tests that use them run in parallel.
//
// Procs run the test's own binary: its TestMain calls host.Main or proc.Main first.
package testmesh
