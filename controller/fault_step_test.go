package controller

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
)

// Faults of other systems' controllers with an effect on decisions; docs/recovery.md lists all of
// them.

// requireTrace plays a script in the form of testdata, and requires its trace.
func requireTrace(t *testing.T, script string) *scenario {
	t.Helper()
	script = strings.TrimPrefix(script, "\n")
	var got strings.Builder
	s := &scenario{t: t}
	for line := range strings.Lines(script) {
		if f := strings.Fields(line); !strings.HasPrefix(line, "\t") && len(f) > 0 {
			got.WriteString(line)
			got.WriteString(s.applyLine(f[0], f[1:]))
		}
	}
	require.Equal(t, script, got.String())
	return s
}

func TestFaultC2_rankFailureIsReportedOnce(t *testing.T) {
	requireTrace(t, `
procs 1 2
	0+2 initializing
overlay 0+2 running
	0+2 running
proc 1 failed killed by signal 9
	ends: proc 1  failed on a: killed by signal 9
	0+1 running
	1+1 failed: killed by signal 9
proc 1 failed killed by signal 9
	0+1 running
	1+1 failed: killed by signal 9
overlay 1+1 failed killed by signal 9
	0+1 running
	1+1 failed: killed by signal 9
overlay 1+1 failed something else
	0+1 running
	1+1 failed: killed by signal 9
`)
}

func TestFaultC6_meshWithACrashedRankHasFailed(t *testing.T) {
	for _, crashed := range []string{"0", "1"} { // the first end counts as much as the last
		s := requireTrace(t, `
procs 1 2
	0+2 initializing
`)
		s.applyLine("overlay", []string{"0+2", "running"})
		s.applyLine("proc", []string{crashed, "failed", "killed by signal 9"})
		require.Equal(t, agent.Running, s.st.phase(), "as its least advanced rank")
		s.applyLine("proc", []string{map[string]string{"0": "1", "1": "0"}[crashed], "stopped"})
		require.Equal(t, agent.Failed, s.st.phase())
	}
}

func TestFaultC8_eventCarriesTheRankOfTheView(t *testing.T) {
	s := requireTrace(t, `
actors 2 3 gpu=1:3
	0+4 initializing
overlay 0+4 running
	0+4 running
`)
	x := s.st.step(s.event("proc", []string{"4", "failed", "killed by signal 9"}), s.now)
	require.Len(t, x.events, 1)
	require.Equal(t, 2, x.events[0].View)
	require.Equal(t, 4, x.events[0].Rank, "and has its place in the mesh")
	require.Equal(t, "host=1/2,gpu=1/3", x.events[0].Point)
	require.Equal(t, agent.Failed, s.st.table.Status(s.st.spec.id(), 2).Phase)
}

func TestFaultC9_nonTerminalStatusYieldsNoEnd(t *testing.T) {
	s := requireTrace(t, `
procs 1 2
	0+2 initializing
overlay 0+2 running
	0+2 running
`)
	for _, status := range []string{"initializing", "running", "stopping", "unknown", "something", ""} {
		e := s.event("proc", []string{"1", status})
		require.Empty(t, s.st.step(e, s.now).events, status)
		require.Equal(t, agent.Running, s.st.table.Status(s.st.spec.id(), 1).Phase, status)
	}
	for _, phase := range []string{"initializing", "running", "stopping", "unknown", "timeout", "not-exist"} {
		require.NotContains(t, s.applyLine("overlay", []string{"1+1", phase}), "ends")
	}
}

// Any bytes may come from the bus.
func TestFaultC10_noInputPanics(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := &scenario{t: t}
		how := rapid.SampledFrom([]string{
			"procs 2 2", "procs 2 2 transient", "procs 2 2 transient d", "procs 2 2 temporary", "actors 2 3 gpu=1:3",
			"actors 2 3 * transient",
		}).Draw(r, "mesh")
		s.applyLine(strings.Fields(how)[0], strings.Fields(how)[1:])
		for range rapid.IntRange(1, 20).Draw(r, "n") {
			heard := anything(r, s.st)
			require.NotPanics(t, func() { s.st.step(heard, s.now) }, "%+v", heard)
			s.now = s.now.Add(time.Second)
		}
		for _, run := range s.st.table.Overlay(s.st.spec.id()) {
			require.True(t, 0 <= run.First && run.First+run.Count <= s.st.spec.Region.NumRanks(), "%v", run)
		}
	})
}

// anything is some event for a controller, perhaps without sense.
func anything(r *rapid.T, st *state) any {
	number := rapid.OneOf(rapid.IntRange(-2, 7), rapid.SampledFrom([]int{math.MinInt, math.MaxInt}))
	count := rapid.IntRange(-2, 7)
	overlay := agent.Overlay{{
		First: number.Draw(r, "first"), Count: count.Draw(r, "count"),
		Status: agent.Status{Phase: rapid.Map(rapid.IntRange(-1, 9),
			func(n int) agent.Phase { return agent.Phase(n) }).Draw(r, "phase")},
	}}
	switch rapid.IntRange(0, 5).Draw(r, "what") {
	case 0:
		return overlay
	case 1:
		asked := agentRequest{serial: uint64(count.Draw(r, "asked"))}
		if rapid.Bool().Draw(r, "expects") {
			asked = st.newRequest(location{host: rapid.IntRange(0, len(st.spec.Procs.Hosts)-1).Draw(r, "at")})
		}
		return asked.answered(overlay, nil)
	case 2:
		return startResult{starts: []rankStart{{rapid.IntRange(0, 3).Draw(r, "started"), number.Draw(r, "in")}},
			overlay: overlay}
	case 3:
		return timerFired{}
	case 4:
		state := presence.State(rapid.IntRange(0, 4).Draw(r, "state"))
		return hostChange{Host: rapid.SampledFrom(st.spec.Procs.Hosts).Draw(r, "host"), State: state}
	}
	return actor.Event{
		Kind:  rapid.SampledFrom([]string{actor.KindProc, actor.KindActor, ""}).Draw(r, "kind"),
		Mesh:  rapid.SampledFrom([]string{st.spec.Procs.ID.String(), ""}).Draw(r, "of"),
		Actor: rapid.SampledFrom([]string{"counters", ""}).Draw(r, "actor"),
		Rank:  number.Draw(r, "rank"), Gen: number.Draw(r, "gen"), Nth: number.Draw(r, "nth"),
		Count:  count.Draw(r, "ranks"),
		Status: rapid.SampledFrom([]string{"failed", "stopped", "running", "initializing", ""}).Draw(r, "status"),
	}
}

func TestFaultC13_olderGenerationOverwritesNothing(t *testing.T) {
	requireTrace(t, `
procs 1 1 transient
	0+1 initializing
overlay 0+1 running
	0+1 running
proc 0 failed killed by signal 9
	tells: proc 0  initializing on a: killed by signal 9 (rank.restart.attempt)
	due in 100ms
	0+1 initializing: restarts: killed by signal 9
after 100ms
	0+1 initializing: restarts: killed by signal 9
due
	starts: 0.1 on a
	0+1 initializing: restarts: killed by signal 9
started 0 1 running
	tells: proc 0  running on a:  (rank.restart.success)
	0+1 running
late 0+1 failed killed by signal 9
	0+1 running
proc 0.0 stopped done
	0+1 running
`)
}

func TestFaultC16_ranksRestartOrMoveToASpare(t *testing.T) { // CTL-6, CTL-8
	requireTrace(t, `
procs 2 1 transient d
	0+2 initializing
overlay 0+2 running
	0+2 running
host b dead silent for 5s
	lost: proc 1.0+1 on b
	tells: proc 1  initializing on b: host b is dead: silent for 5s (rank.restart.attempt)
	due in 100ms
	0+1 running
	1+1 initializing: restarts: host b is dead: silent for 5s
after 100ms
	0+1 running
	1+1 initializing: restarts: host b is dead: silent for 5s
due
	starts: 1.1 on d
	0+1 running
	1+1 initializing: restarts: host b is dead: silent for 5s
started 1 1 running
	tells: proc 1  running on d:  (rank.restart.success)
	0+2 running
proc 1.1 failed exited with code 3
	tells: proc 1  initializing on d: exited with code 3 (rank.restart.attempt)
	due in 200ms
	0+1 running
	1+1 initializing: restarts: exited with code 3
`)
}

func TestFaultAC1_onePassReportsEveryEndedProc(t *testing.T) {
	s := requireTrace(t, `
procs 2 2
	0+4 initializing
overlay 0+4 running
	0+4 running
`)
	dead := agent.Status{Phase: agent.Failed, Reason: "killed by signal 9"}
	x := s.st.step(agent.Overlay{{First: 0, Count: 1, Status: dead}, {First: 2, Count: 2, Status: dead}}, s.now)
	require.Empty(t, x.events, "their events may be on their way")
	x = s.st.step(timerFired{}, s.now.Add(endEventGrace))
	var told []int
	for _, e := range x.events {
		told = append(told, e.Rank)
	}
	require.Equal(t, []int{0, 2, 3}, told)
	for _, rank := range told {
		require.Equal(t, dead, s.st.table.Status(s.st.spec.id(), rank), "it is stored")
	}
}

func TestFaultAC2_silentHostIsUnknownThenItsRanksFail(t *testing.T) {
	requireTrace(t, `
procs 2 1
	0+2 initializing
overlay 0+2 running
	0+2 running
silent 1
	0+2 running
host b unknown this process is not connected
	0+1 running
	1+1 running: its host b is unknown: this process is not connected
host b suspect silent for 1.6s
	0+1 running
	1+1 running: its host b is suspect: silent for 1.6s
host b dead silent for 5s
	lost: proc 1.0+1 on b
	ends: proc 1  failed on b: host b is dead: silent for 5s
	0+1 running
	1+1 failed: host b is dead: silent for 5s
`)
}

func TestFaultAC3_orderlyStopFailsNothing(t *testing.T) {
	requireTrace(t, `
procs 1 2
	0+2 initializing
overlay 0+2 running
	0+2 running
overlay 0+1 stopped exited with code 0
	ends: proc 0  stopped on a: exited with code 0
	0+1 stopped: exited with code 0
	1+1 running
proc 1 stopped exited with code 0
	ends: proc 1  stopped on a: exited with code 0
	0+2 stopped: exited with code 0
	over: stopped
`)
}

func TestFaultAC4_stopKeepsAnEarlierCrash(t *testing.T) {
	s := requireTrace(t, `
procs 1 2
	0+2 initializing
overlay 0+2 running
	0+2 running
proc 0 failed killed by signal 9
	ends: proc 0  failed on a: killed by signal 9
	0+1 failed: killed by signal 9
	1+1 running
stop enough
	0+1 failed: killed by signal 9
	1+1 stopping: enough
overlay 0+2 stopped enough
	ends: proc 1  stopped on a: enough
	0+1 failed: killed by signal 9
	1+1 stopped: enough
	over: failed
`)
	require.Equal(t, "killed by signal 9", s.st.changes.after(0)[0].Reason, "a later watcher learns of it")
	require.True(t, s.st.changes.after(0)[0].Failed())
}

func TestFaultAC9_timeoutAndUnknownAreNoRankStatus(t *testing.T) {
	requireTrace(t, `
procs 1 1
	0+1 initializing
overlay 0+1 timeout no answer
	0+1 initializing
overlay 0+1 running
	0+1 running
overlay 0+1 unknown cannot be told
	0+1 running
overlay 0+1 timeout no answer
	0+1 running
proc 0 failed exited with code 3
	ends: proc 0  failed on a: exited with code 3
	0+1 failed: exited with code 3
	over: failed
`)
}

func TestFaultAC11_meshWithoutRanksOrHostsIsRefused(t *testing.T) {
	extent := shape.Of("host", 1)
	require.ErrorContains(t, Spec{Procs: meshOf(t, extent, 1), Region: shape.Of("host", 0).Region()}.check(),
		"the region has no ranks")
	none := meshOf(t, extent, 1)
	none.Hosts = nil
	require.ErrorContains(t, Spec{Procs: none, Region: extent.Region()}.check(), "has no hosts")
}

// The table of a process's end and its actor's status (test_proc_status_to_actor_status_…).
func TestProcStatus_determinesTheActorStatus(t *testing.T) {
	for name, c := range map[string]struct {
		heard []string // what is told of the proc
		want  string
	}{
		"stopped cleanly": {[]string{"proc", "0", "stopped", "exited", "cleanly"},
			"stopped: exited cleanly"},
		"nonzero exit": {[]string{"proc", "0", "failed", "exited", "with", "code", "1"},
			"failed: exited with code 1"},
		"stopping is no failure": {[]string{"proc", "0", "stopping"}, "running"},
		"none: its host is silent": {[]string{"host", "a", "unknown", "no", "answer"},
			"running: its host a is unknown: no answer"},
		"killed": {[]string{"proc", "0", "failed", "killed", "by", "signal", "9"},
			"failed: killed by signal 9"},
		"failed": {[]string{"proc", "0", "failed", "oom"}, "failed: oom"},
	} {
		s := requireTrace(t, `
actors 1 1 *
	0+1 initializing
overlay 0+1 running
	0+1 running
`)
		s.applyLine(c.heard[0], c.heard[1:])
		require.Equal(t, c.want, s.st.table.Status(s.st.spec.id(), 0).String(), name)
	}
}
