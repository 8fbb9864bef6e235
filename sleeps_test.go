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
	"agent/host/store.go": "a lock tells nobody when it is free",
	"agent/proc/main.go": "the last thing of a process whose parent is gone is to wait so " +
		"long and exit",
	"cmd/hostd/server.go": "a port tells nobody when it is free",
	"internal/cgroup/dir.go": "a search for leftovers that took a new directory for an old one " +
		"is over in a moment",
	"internal/cgroup/group.go":   "a process out of descriptors is not told when it has some",
	"internal/cgroup/manager.go": "a lock of a dead process tells nobody when it is free",
	"internal/launch/adopt_linux.go": "the kernel does not tell how the child of another process ended " +
		"until it is reaped",
	"internal/launch/leftovers_linux.go": "the kernel tells nobody when the last reader of a lifeline is gone",
	"internal/launch/orphans_linux.go":   "a process in the midst of an exec tells nobody when it is through",

	"internal/testkit/wait.go": "a condition without an event is checked again and again",
	"agent/agenttest/exercise.go": "real agents time leases by their own clock: it is renewed " +
		"for longer than that",
	"cast/declined_test.go":         "what leaves a queue makes room in it until a window is full",
	"integration/extrinsic_test.go": "what comes twice comes after what was waited for",
	"integration/supervision_test.go": "agents time leases by their own clock: nothing ends for " +
		"longer than that",
	"internal/launch/failpoint_linux_test.go": "a process of its own, which dies on the way: the test waits " +
		"with a deadline",
	"internal/launch/limits_linux_test.go": "a process of its own: the test waits with a deadline",
	"internal/launch/tree_linux_test.go":   "a process of its own: the test waits with a deadline",
	"mesh/allocate_test.go":                "what comes twice comes after what was waited for",
	"mesh/main_test.go":                    "actors that are busy, whoever asks them to end",
	"mesh/queries_test.go": "hosts time leases by their own clock: nothing ends for " +
		"longer than that",
	"mesh/takeover_test.go": "hosts time leases by their own clock: nothing ends for " +
		"longer than that",
}

// skippers are the test files that skip, with the missing condition.
var skippers = map[string]string{
	"actor/scale_test.go": "under the race detector pools forget on purpose: memory is " +
		"measured without it",
	"actor/statemachine_test.go": "a step of a drawn run for which there is nothing: another one " +
		"is drawn",
	"agent/host/store_leases_test.go": "a kernel that does not tell its boots apart",
	"agent/host/logs_test.go":         "the right to mount a disk",
	"cast/scale_test.go":              "a second goroutine, which the race detector could look at",
	"integration/listener_test.go": "a server that says that nobody listens, or answers that no " +
		"stream's acknowledgement precedes",
	"internal/cgroup/cgroup_test.go":       "cgroups",
	"internal/launch/adopt_linux_test.go":  "a kernel that tells how somebody else's child ended, or cgroups",
	"internal/launch/limits_linux_test.go": "what the machine does not put in force",
	"internal/launch/logs_linux_test.go":   "the right to mount a disk",
	"internal/launch/tree_linux_test.go":   "cgroups, or a shell",
	"internal/link/simulation_test.go":     "a second goroutine, or all the seeds: one is run again by hand",
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
