package castnet_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// sleepers lists the files that wait for the clock, each with the reason why no event serves. A
// file that imports testing/synctest, or calls testkit.Virtual, sleeps in bubbles, where a sleep
// takes no time.
var sleepers = map[string]string{
	"agent/host/run_dir.go": "a lock reports no release",
	"agent/host/store.go":   "a lock reports no release",
	"agent/proc/main.go": "a process without its parent waits a last time, " +
		"then exits",
	"cmd/hostd/server.go":    "a port reports no release",
	"internal/auth/files.go": "a lock reports no release",
	"internal/cgroup/dir.go": "a search for leftovers may lock a new directory " +
		"for a moment",
	"internal/cgroup/group.go":   "free descriptors are not reported",
	"internal/cgroup/manager.go": "a lock of a dead process reports no release",
	"internal/launch/adopt_linux.go": "the kernel has no exit code of a foreign child " +
		"until it is reaped",
	"internal/launch/leftovers_linux.go": "the kernel does not report the last reader of a lifeline",
	"internal/launch/orphans_linux.go":   "a process does not report the end of its exec",

	"internal/testkit/wait.go": "a condition without an event is checked again and again",
	"agent/agenttest/exercise.go": "real agents time leases by their own clock: it is renewed " +
		"for longer than that",
	"cast/declined_test.go":         "packets leave a queue until a window is full",
	"integration/extrinsic_test.go": "a second copy comes after the awaited one",
	"integration/supervision_test.go": "agents time leases by their own clock: nothing ends for " +
		"longer than that",
	"integration/takeover_test.go": "a return that is too early has no event before the awaited one",
	"internal/launch/failpoint_linux_test.go": "a process of its own, which dies on the way: the test waits " +
		"with a deadline",
	"internal/launch/limits_linux_test.go": "a process of its own: the test waits with a deadline",
	"internal/launch/tree_linux_test.go":   "a process of its own: the test waits with a deadline",
	"mesh/allocate_test.go":                "a second copy comes after the awaited one",
	"mesh/main_test.go":                    "actors without an end while they are busy",
	"mesh/queries_test.go": "hosts time leases by their own clock: nothing ends for " +
		"longer than that",
	"mesh/takeover_test.go": "hosts time leases by their own clock: nothing ends for " +
		"longer than that",
}

// skippers are the test files that skip, with the missing condition.
var skippers = map[string]string{
	"actor/scale_test.go": "under the race detector pools forget on purpose: memory is " +
		"measured without it",
	"actor/statemachine_test.go": "a drawn step without an object: another one " +
		"is drawn",
	"agent/host/store_leases_test.go":    "a kernel without an ID of its boot",
	"agent/host/logs_test.go":            "the right to mount a disk",
	"cast/scale_test.go":                 "a second goroutine for the race detector",
	"cmd/hostd/privileges_linux_test.go": "root, to start procs of another user",
	"integration/listener_test.go": "a server that reports missing listeners, or answers without " +
		"a stream's acknowledgement before them",
	"internal/cgroup/cgroup_test.go":           "cgroups",
	"internal/launch/adopt_linux_test.go":      "a kernel with exit codes of foreign children, or cgroups",
	"internal/launch/limits_linux_test.go":     "a limit that the machine enforces",
	"internal/launch/logs_linux_test.go":       "the right to mount a disk",
	"internal/launch/privileges_linux_test.go": "root, to start processes of another user",
	"internal/launch/tree_linux_test.go":       "cgroups, or a shell",
	"internal/link/simulation_test.go":         "a second goroutine, or all the seeds: one is run again by hand",
}

func TestSleeps_eachIsListedWithAReason_REPO3(t *testing.T) {
	found := map[string][]string{}
	eachCall(t, func(path string, file *ast.File, s *ast.SelectorExpr, _ *ast.CallExpr, at token.Position) {
		if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "time" && s.Sel.Name == "Sleep" &&
			!hasBubbles(file) {
			found[path] = append(found[path], at.String())
		}
	})
	requireListed(t, found, sleepers,
		"wait for the event with a deadline, or sleep in a bubble of testing/synctest")
}

func TestSkips_eachIsListedWithAReason_REPO3(t *testing.T) {
	found := map[string][]string{}
	eachCall(t, func(path string, _ *ast.File, s *ast.SelectorExpr, _ *ast.CallExpr, at token.Position) {
		if strings.HasSuffix(path, "_test.go") &&
			slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
			found[path] = append(found[path], at.String())
		}
	})
	requireListed(t, found, skippers, "a test that cannot run here is one that nobody runs")
}

// hasBubbles reports whether a file's tests run in bubbles of testing/synctest.
func hasBubbles(file *ast.File) (found bool) {
	if slices.ContainsFunc(file.Imports,
		func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` }) {
		return true
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			pkg, ok := s.X.(*ast.Ident)
			found = found || ok && pkg.Name == "testkit" && s.Sel.Name == "Virtual"
		}
		return !found
	})
	return found
}
