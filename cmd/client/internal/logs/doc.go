// Package logs shows the output of procs: the last lines, and new lines as they come.
//
// The lines come from mesh.ProcMesh.Logs and mesh.LogStream, which also fold equal lines of several
// ranks. ends.go waits until every rank has ended for good.
//
// Nothing here is safe for concurrent use.
package logs
