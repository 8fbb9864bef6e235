package agent

import "github.com/castnet-io/castnet/actor"

// StepMoveAttempt is the event step of a proc that ends only because its rank moves to another
// host. Owners of its actors wait for the next generation.
const StepMoveAttempt = "proc.move.attempt"

// StepFenced is the event step of a controller that lost its mesh to another one (FencedFromEvent).
const StepFenced = "controller.fenced"

// StepDrain and StepShutdown are the event steps of a host that begins to stop its procs, by order.
const (
	StepDrain    = "host.drain.attempt"
	StepShutdown = "host.shutdown.attempt"
)

// JoinRuns joins equal events of adjacent ranks, in their order. A mesh that stops thus causes one
// event per host.
func JoinRuns(events []actor.Event) (runs []actor.Event) {
	for _, e := range events {
		if n := len(runs); n > 0 && continuesRun(runs[n-1], e) {
			runs[n-1].Count = max(runs[n-1].Count, 1) + 1
			runs[n-1].Point = "" // that of its first rank
			continue
		}
		runs = append(runs, e)
	}
	return runs
}

// continuesRun reports whether event e extends run by the next rank.
func continuesRun(run, e actor.Event) bool {
	count := max(run.Count, 1)
	return run.Kind == e.Kind && run.Mesh == e.Mesh && run.Actor == e.Actor && run.Host == e.Host &&
		run.Gen == e.Gen && run.Rank+count == e.Rank && e.Count <= 1 &&
		(run.Seq == 0) == (e.Seq == 0) && (e.Seq == 0 || run.Seq+uint64(count) == e.Seq) &&
		run.Status == e.Status && run.Step == e.Step && run.Reason == e.Reason && run.Signal == e.Signal &&
		(run.ExitCode == nil) == (e.ExitCode == nil) && (run.ExitCode == nil || *run.ExitCode == *e.ExitCode) &&
		!hasDetails(run) && !hasDetails(e)
}

// hasDetails reports whether an event has fields that its neighbours do not share.
func hasDetails(e actor.Event) bool {
	return len(e.StderrTail) > 0 || len(e.Detail) > 0 || e.Cause != nil || e.Code != 0 || e.Endpoint != ""
}
