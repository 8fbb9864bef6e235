package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

func TestExplanation_putsTheRootCauseFirst_INS5(t *testing.T) {
	code := 3
	base := shape.Of("host", 2).With("gpu", 2)
	at := time.Now().Add(-time.Hour)
	v := View{
		Mesh: "m-000000000000m", Ranks: 4, Phase: "failed", Shape: base, Owner: Owner{Answering: true},
		RestartPolicy: "propagate", PerHost: 2,
		Hosts: []Host{{ID: "a-000000000000a", State: hostAlive},
			{ID: "b-000000000000b", State: "dead", Reason: "it said goodbye"}},
		Statuses: []StatusRun{
			{Region: "host=0", Ranks: 2, Status: "failed", Reason: "exit"},
			{Region: "host=1", Ranks: 2, Status: "failed", Reason: "host b is dead: it said goodbye"},
		},
		Failures: []Failure{
			{Rank: 1, Host: "a-000000000000a", Reason: "it ended", ExitCode: &code,
				StderrTail: []string{"one", "two"}, At: at},
			{Rank: 0, Host: "a-000000000000a", Reason: "it ended", ExitCode: &code, At: at.Add(time.Second)},
			{Rank: 2, Host: "b-000000000000b", Reason: "host b is dead: it said goodbye"},
			{Rank: 3, Host: "b-000000000000b", Reason: "host b is dead: it said goodbye"},
		},
	}
	x := v.Explanation()
	var lines []string
	for _, c := range x.Causes {
		lines = append(lines, c.String())
	}
	require.Equal(t, []string{
		"host b is dead: it said goodbye; it has 2 ranks [host=1,gpu=*]",
		"[host=0,gpu=*] failed: it ended; exit code 3 (1h0m ago)",
	}, lines, "who failed for its host did is told of with the host")
	require.Equal(t, []string{"one", "two"}, x.Causes[1].StderrTail)
	require.Equal(t, "m-000000000000m is failed: of its 4 ranks 4 failed", x.Answer)
	require.Contains(t, x.Suggestions[0], "castnet logs 'm-000000000000m[host=0,gpu=0]'")
}

func TestExplanation_healthyMeshNamesHostsWithAFullLogDisk(t *testing.T) {
	e := shape.Of("host", 2)
	x := View{
		Mesh: "demo", Phase: "running", Shape: e, Ranks: 2, PerHost: 1, Owner: Owner{Answering: true},
		Statuses: []StatusRun{{Region: "*", Ranks: 2, Status: "running"}},
		Hosts: []Host{
			{ID: "a-0000000000001", State: hostAlive},
			{ID: "b-0000000000002", State: hostAlive, LogTrouble: "the disk is nearly full"},
		},
	}.Explanation()
	require.True(t, x.Healthy)
	require.Equal(t, "demo is running: all its 2 ranks", x.Answer)
	require.Equal(t, []Cause{{Kind: "logs", Reason: "output may be lost on b: the disk is nearly full"}}, x.Causes)
}

func TestExplanation_coversMissingLeasesAndMissingHosts(t *testing.T) {
	one := shape.Of("gpu", 2)
	v := View{
		Mesh: "m-000000000000m", Ranks: 2, Phase: "running", Shape: one, PerHost: 2, Owner: Owner{Reason: "gone"},
		Statuses: []StatusRun{{Region: "*", Ranks: 2, Status: "running"}},
	}
	require.Equal(t, []string{"no host reports a lease: live procs run until `castnet stop`"},
		v.Explanation().Next)
	v = View{
		Mesh: "w-000000000000m", Ranks: 2, Phase: "running", Shape: one, PerHost: 1, Owner: Owner{Answering: true},
		World: &World{Status: system.StatusUnhealthy},
		Statuses: []StatusRun{{Region: "gpu=0", Ranks: 1, Status: "running"},
			{Region: "gpu=1", Ranks: 1, Status: "not-exist"}},
	}
	require.Equal(t, "w-000000000000m is unhealthy: of its 2 ranks 1 not-exist, 1 running",
		v.Explanation().Answer)
	v.World.Reason = "1 of 2 procs have started"
	require.Equal(t, []string{"it waits for missing procs: 1 of 2 procs have started"}, v.Explanation().Next)
	v.World.Reason = "proc w/1.0: failed"
	v.World.EvictionIn = 27 * time.Second
	require.Equal(t, []string{"it is stopped and removed in 27s (world.eviction-timeout): proc w/1.0: failed"},
		v.Explanation().Next)
}

// The system controller knows the hosts of a world without procs, and their reasons.
func TestExplanation_countsWorldHostsWithoutProcs(t *testing.T) {
	ids := map[string]subjects.HostID{}
	for _, label := range []string{"here", "slow", "gone", "shut"} {
		id, err := subjects.ParseHostID(label + "-0000000000000")
		require.NoError(t, err)
		ids[label] = id
	}
	mesh, err := subjects.ParseMeshID("train-0000000000000")
	require.NoError(t, err)
	proc := func(rank uint32, health system.Health, why string) system.ProcState {
		return system.ProcState{ID: subjects.ProcID{Mesh: mesh, Rank: rank}, Health: health, Reason: why}
	}
	w := inspection{
		desc: agent.Mesh{ID: mesh, Extent: shape.Of("x", 5), PerHost: 1,
			World: &agent.WorldShare{World: "train", Count: 5}, Hosts: make([]subjects.HostID, 5)},
		liveHosts: []subjects.HostID{ids["here"], ids["slow"], ids["shut"]},
		states:    map[int]agent.State{0: {Rank: 0, Status: agent.Status{Phase: agent.Running}}},
		world: &system.WorldState{
			Status: system.StatusUnhealthy, Reason: "proc train/2.0: it is lost",
			Hosts: []system.HostState{{Rank: 0, ID: ids["here"], Count: 1}, {Rank: 1, ID: ids["slow"], Count: 1},
				{Rank: 2, ID: ids["gone"], Count: 1, Lost: "no heartbeat"}, {Rank: 3, ID: ids["shut"], Count: 1}},
			Procs: []system.ProcState{proc(0, system.HealthAlive, ""),
				proc(2, system.HealthExpired, "host gone-0000000000000 is lost: no heartbeat"),
				proc(3, system.HealthEnded, "failed: command is not allowed")},
		},
	}
	x := w.view().Explanation()
	require.Equal(t, "train-0000000000000 is unhealthy: of its 5 ranks 2 not-exist, 1 running, 2 failed",
		x.Answer)
	var causes []string
	for _, c := range x.Causes {
		causes = append(causes, c.String())
	}
	require.Equal(t, []string{
		"host gone is dead: no heartbeat; it has 1 rank [x=2]",
		"the world has no host with rank 4; it has 1 rank [x=4]",
		"[x=3] failed: command is not allowed",
		"[x=1] not-exist: its host slow has not started it",
	}, causes)
	require.Contains(t, x.Next[0], "it waits for missing procs")
	require.Equal(t, []string{
		"read the output of the first of them: castnet logs 'train-0000000000000[x=3]'",
		"check hostd on gone, or start another with --world train --host-rank 2",
		"start a hostd with --world train --host-rank 4",
	}, x.Suggestions)
}

func TestExplanation_namesTheOrdersThatStoppedAWorld(t *testing.T) {
	a, err := subjects.ParseHostID("a-0000000000000")
	require.NoError(t, err)
	b, err := subjects.ParseHostID("b-0000000000000")
	require.NoError(t, err)
	id, err := subjects.ParseMeshID("train-0000000000000")
	require.NoError(t, err)
	stopped := func(rank int, why string) agent.State {
		return agent.State{Rank: rank, Status: agent.Status{Phase: agent.Stopped, Reason: why}}
	}
	w := inspection{
		desc: agent.Mesh{ID: id, Extent: shape.Of("x", 3), PerHost: 1,
			World: &agent.WorldShare{World: "train", Count: 3}, Hosts: make([]subjects.HostID, 3)},
		liveHosts: []subjects.HostID{a},
		states:    map[int]agent.State{0: stopped(0, "new disks")},
		world: &system.WorldState{Status: system.StatusUnhealthy, Reason: "why",
			Hosts: []system.HostState{{Rank: 0, ID: a, Count: 1}},
			Left:  map[int]subjects.HostID{1: b, 2: a}},
	}
	w.noteOrders([]actor.Event{
		{Step: agent.StepDrain, Host: a.String(), Reason: "an earlier one", By: "u-eve.x"},
		{Step: agent.StepShutdown, Host: b.String(), By: "u-bob.y"},
		{Step: "host.drain.success", Host: a.String()},
		{Step: agent.StepDrain, Host: a.String(), Reason: "new disks", By: "u-ann.x"},
	})
	x := w.view().Explanation()
	var causes []string
	for _, c := range x.Causes {
		causes = append(causes, c.String())
	}
	require.Equal(t, []string{
		"the world has no host with rank 1: host b was shut down by u-bob; it has 1 rank [x=1]",
		"the world has no host with rank 2: host a was drained by u-ann: new disks; it has 1 rank [x=2]",
		"[x=0] stopped: host a was drained by u-ann: new disks",
	}, causes)
	require.Equal(t, []string{
		"start the procs of a again: stop its hostd (SIGTERM), and start it with --world train --host-rank 0",
		"start a hostd with --world train --host-rank 1", "start a hostd with --world train --host-rank 2",
	}, x.Suggestions)
	w.states[0] = stopped(0, "its program was stopped")
	require.Contains(t, w.view().Explanation().Causes[2].String(), "stopped: its program was stopped",
		"an earlier order is no cause")
}

func TestPhase_withASilentOwnerIsTheLeastAdvanced(t *testing.T) {
	for _, row := range []struct {
		want   agent.Phase
		phases []agent.Phase
	}{
		{agent.Running, []agent.Phase{agent.Running, agent.Failed, agent.Unknown}},
		{agent.ShuttingDown, []agent.Phase{agent.Stopped, agent.ShuttingDown}},
		{agent.Stopped, []agent.Phase{agent.Stopped, agent.Stopped}},
		{agent.Failed, []agent.Phase{agent.Stopped, agent.Failed}},
		{agent.Unknown, []agent.Phase{agent.Stopped, agent.Failed, agent.Unknown}},
		{agent.Running, []agent.Phase{agent.NotExist, agent.Running}},
		{agent.NotExist, []agent.Phase{agent.NotExist, agent.NotExist}},
	} {
		by := map[int]agent.Status{}
		for rank, p := range row.phases {
			by[rank] = agent.Status{Phase: p}
		}
		require.Equal(t, row.want, overallPhase(by), "%v", row.phases)
	}
}

// The newest mesh of a name may have been on hosts that have left since.
func TestForgotten_newestMeshOfANameIsExplainedByItsFailures(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	event := func(mesh string, rank int, after time.Duration, why string) actor.Event {
		return actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: mesh, Rank: rank, Signal: 9, Reason: why,
			At: began.Add(after)}
	}
	past := []actor.Event{event("m-000000000000a", 0, -time.Minute, "older"),
		event("m-000000000000c", 2, time.Minute, "killed by signal 9"),
		event("n-000000000000n", 0, 2*time.Minute, "another"),
		event("m-000000000000c", 1, 3*time.Minute, "killed by signal 9")}
	old := View{Mesh: "m-000000000000b", Phase: "stopped", Ranks: 1, Started: &began,
		Statuses: []StatusRun{{Region: "*", Ranks: 1, Status: "stopped"}}}
	for name, v := range map[string]View{"m": old, "m-000000000000c": {}} {
		x, ok := explainForgotten(past, name, v)
		require.True(t, ok)
		require.Equal(t, "m-000000000000c has ended, and no host remembers it; the system controller remembers its failures",
			x.Answer)
		require.Equal(t, []string{"[rank=1:3] failed: killed by signal 9 (59m ago)"}, []string{x.Causes[0].String()})
	}
	_, ok := explainForgotten(past[:1], "m", old)
	require.False(t, ok, "hosts remember a later one")
	require.Equal(t, "it started 1h0m ago, and no host remembers a later mesh of this name",
		old.Explanation().Next[1])
}
