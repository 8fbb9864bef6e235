// Package testproc gives tests procs on a server, without hosts and clients of meshes.
//
//	srv := bustest.Server(t)
//	p, end := testproc.Start(t, srv, testproc.Options{}, counterDef())
//
// Package testmesh has whole meshes, so the tests inside the packages that a mesh is made of cannot
// import it. They import this package. It works inside a bubble of testing/synctest.
package testproc
