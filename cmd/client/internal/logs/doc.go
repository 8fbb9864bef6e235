// Package logs shows the output of procs: the last lines, and new lines as they come.
//
// A follower subscribes before the last lines are read, and dedupe.go removes the overlap, so no
// line is lost or repeated. merge.go shows equal lines of several ranks once; it delays no line
// beyond the window and keeps the order of each rank's lines. ends.go waits until every rank has
// ended for good.
package logs
