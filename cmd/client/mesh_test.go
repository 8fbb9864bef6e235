package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// own spawns procs that the tests' own process owns.
func (c *cluster) own(t *testing.T, s mesh.SpawnSpec) mesh.ProcMesh {
	t.Helper()
	net := c.Connect(t)
	hosts, err := net.Hosts(t.Context())
	require.NoError(t, err)
	if s.Command.Path == "" {
		s.Command.Path = agent.Builtin
	}
	p, err := hosts.SpawnProcs(t.Context(), s)
	require.NoError(t, err)
	return p
}

// explained asks why until the answer is what is waited for: owners hear of what happened a moment later.
func (c *cluster) explained(t *testing.T, name string, enough func(explanation) bool) (x explanation) {
	t.Helper()
	require.Eventually(t, func() bool {
		x = decode[explanation](t, c.ok(t, "explain", name, "-o", "json"))
		return enough(x)
	}, testkit.Patience, 50*time.Millisecond)
	return x
}

func TestMeshShow_printsTheOwnersView(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	_, up := c.up(t, "demo", "--per-host", "gpu=2", "--lease", "45s")
	v := decode[meshView](t, c.ok(t, "mesh", "show", "demo", "-o", "json"))
	require.Equal(t, up.Mesh, v.Mesh)
	require.Equal(t, "host=2,gpu=2", v.Extent)
	require.Equal(t, "running", v.Phase)
	require.Equal(t, []statusRun{{Region: "*", Ranks: 4, Status: "running"}}, v.Statuses)
	require.Equal(t, "propagate", v.Policy)
	require.True(t, v.Owner.Answers)
	require.Equal(t, 45*time.Second, v.Owner.Lease)
	require.Len(t, v.Hosts, 2)
	require.Equal(t, up.Actor, v.Actors[0].Actor)
	require.Empty(t, v.Failures)
	text := c.ok(t, "mesh", "show", up.Mesh)
	require.Regexp(t, `(?m)^extent +host=2,gpu=2: 4 procs on 2 hosts \(a, b\)$`, text)
	require.Regexp(t, `(?m)^lease +45s: procs outlive`, text)
	require.Regexp(t, `(?m)^\[\*\] +4 +running +-$`, text)
	require.Equal(t, up.Mesh+" is running: all its 4 ranks\n", c.ok(t, "explain", "demo"))
	require.Equal(t, explanation{
		Mesh: up.Mesh, Phase: "running", Healthy: true, Answer: up.Mesh + " is running: all its 4 ranks", Causes: []cause{}, Next: []string{}, Todo: []string{},
	}, decode[explanation](t, c.ok(t, "explain", "demo", "-o", "json")), "lists are there when they are empty")

	c.kill(t, "demo", "host=1,gpu=0")
	x := c.explained(t, "demo", func(x explanation) bool { return !x.Healthy })
	require.Len(t, x.Causes, 1, "%+v", x)
	require.Equal(t, "host=1,gpu=0", x.Causes[0].Region)
	require.Contains(t, x.Causes[0].Why, "killed by signal 9")
	text = c.ok(t, "explain", "demo")
	require.Contains(t, text, up.Mesh+" is running with 3 of its 4 ranks:\n  [host=1,gpu=0] failed: killed by signal 9")
	require.Contains(t, text, "What happens next:\n  failed ranks do not restart (propagate)\n")
	require.Contains(t, text, "castnet logs '"+up.Mesh+"[host=1,gpu=0]'")
	v = decode[meshView](t, c.ok(t, "mesh", "show", "demo", "-o", "json"))
	require.Equal(t, 9, v.Failures[0].Signal)
}

// CLI-C7.
func TestMeshShow_reportsASilentOwnerAndTheHostsView(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	b, up := c.up(t, "demo", "--per-host", "gpu=2", "--lease", "45s")
	exit(t, b, syscall.SIGKILL)
	v := decode[meshView](t, c.ok(t, "mesh", "show", "demo", "-o", "json"))
	require.False(t, v.Owner.Answers)
	require.Contains(t, v.Owner.Why, "is gone")
	require.Equal(t, "running", v.Phase)
	require.Equal(t, []statusRun{{Region: "*", Ranks: 2, Status: "running"}}, v.Statuses)
	require.True(t, v.Lease > 0 && v.Lease <= 45*time.Second, "%s", v.Lease)
	require.Regexp(t, `is silent: .* is gone\n +the rest is reported by the hosts\n`, c.ok(t, "mesh", "show", "demo"))
	text := c.ok(t, "explain", "demo")
	require.Regexp(t, up.Mesh+` is running, all of it, but:\n  its owner does not answer: .* is gone\n`, text)
	require.Regexp(t, `its lease expires in \d+s: then the hosts stop its procs`, text)
	require.Contains(t, text, "castnet stop "+up.Mesh)

	c.ok(t, "stop", "demo")
	text = c.ok(t, "explain", "demo")
	require.Contains(t, text, up.Mesh+" is stopped: of its 2 ranks 2 stopped:\n")
	require.Contains(t, text, "nothing: it has ended")
}

func TestExplain_namesRestartTimesAndLostHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	p := c.own(t, mesh.SpawnSpec{
		Name: "again", PerHost: shape.Of("gpu", 2), Policy: controller.Policy{Recovery: controller.Restart, Backoff: time.Hour, MaxBackoff: time.Hour},
	})
	c.kill(t, "again", "host=0,gpu=1")
	x := c.explained(t, "again", func(x explanation) bool { return !x.Healthy })
	require.Contains(t, x.Answer, "is running with 3 of its 4 ranks")
	require.Equal(t, "host=0,gpu=1", x.Causes[0].Region)
	require.Contains(t, x.Causes[0].Why, "initializing: restarts: killed by signal 9")
	require.Regexp(t, `^\[host=0,gpu=1\] starts in (59m|1h0m), in generation 1 \(restart 1; restart: each rank at most 3 times within 1m0s, backoff 1h0m0s to 1h0m0s\)$`, x.Next[0])
	require.Regexp(t, `(?m)^\[host=0,gpu=1\] +1 +a +1 +starts in `, c.ok(t, "mesh", "show", "again"))

	c.leave[1]()
	x = c.explained(t, "again", func(x explanation) bool { return x.Causes[0].What == "host" })
	require.Equal(t, "host=1,gpu=*", x.Causes[0].Region)
	require.Contains(t, x.Causes[0].Why, "host b is ")
	require.Contains(t, x.Todo, "check hostd on b")
	require.NoError(t, p.Stop(t.Context()))
}

func TestMeshShowAndExplain_refuseUnknownMeshes(t *testing.T) {
	t.Parallel()
	none, c := newCluster(t), newCluster(t, "a")
	for range 2 {
		c.own(t, mesh.SpawnSpec{Name: "twin", PerHost: shape.Of("gpu", 1)})
	}
	for _, row := range []struct {
		c    *cluster
		name string
		code int
		why  string
	}{
		{c, "nobody", cli.ExitNotFound, `mesh "nobody" does not exist; there is twin-`},
		{c, "twin", cli.ExitFailure, `mesh "twin" is ambiguous: want one of twin-`},
		{c, "twin[gpu=0]", cli.ExitUsage, "takes a whole mesh: want twin, got twin[gpu=0]"},
		{c, "tw in", cli.ExitUsage, "tw in"},
		{none, "demo", cli.ExitFailure, "no host answers on nats://"},
	} {
		for _, command := range [][]string{{"mesh", "show"}, {"explain"}} {
			r := row.c.client(t, append(command, row.name)...)
			require.Equal(t, row.code, r.code, "%v %s: %s", command, row.name, r.err)
			require.Contains(t, r.err, row.why)
			require.Empty(t, r.out)
		}
	}
}

func TestExplanation_putsTheRootCauseFirst(t *testing.T) {
	code := 3
	base := shape.Of("host", 2).With("gpu", 2)
	at := time.Now().Add(-time.Hour)
	v := meshView{
		Mesh: "m-000000000000m", Ranks: 4, Phase: "failed", base: base, Owner: ownerView{Answers: true}, Policy: "propagate", perHost: 2,
		Hosts: []hostView{{ID: "a-000000000000a", State: hostAlive}, {ID: "b-000000000000b", State: "dead", Reason: "it said goodbye"}},
		Statuses: []statusRun{
			{Region: "host=0", Ranks: 2, Status: "failed", Reason: "exit"},
			{Region: "host=1", Ranks: 2, Status: "failed", Reason: "host b is dead: it said goodbye"},
		},
		Failures: []failure{
			{Rank: 1, Host: "a-000000000000a", Reason: "it ended", ExitCode: &code, StderrTail: []string{"one", "two"}, At: at},
			{Rank: 0, Host: "a-000000000000a", Reason: "it ended", ExitCode: &code, At: at.Add(time.Second)},
			{Rank: 2, Host: "b-000000000000b", Reason: "host b is dead: it said goodbye"},
			{Rank: 3, Host: "b-000000000000b", Reason: "host b is dead: it said goodbye"},
		},
	}
	x := v.explanation()
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
	require.Contains(t, x.Todo[0], "castnet logs 'm-000000000000m[host=0,gpu=0]'")
}

func TestMeshShow_showsTheCurrentGenerationOfARank(t *testing.T) {
	var out strings.Builder
	a := &app{stdout: &out}
	require.NoError(t, a.showRestartedRanks([]restartedRank{
		{controller.RankHistory{Gen: 3, Restarts: 3, Cause: "killed"}, "gpu=0", "failed"},
		{controller.RankHistory{Gen: 1, Restarts: 1, Cause: "killed", RestartPhase: "starting"}, "gpu=1", "initializing"},
	}))
	require.Regexp(t, `(?m)^\[gpu=0\] +3 +- +3 +failed +killed$`, out.String())
	require.Regexp(t, `(?m)^\[gpu=1\] +1 +- +1 +starting +killed$`, out.String())
}

func TestMeshShow_printsTheReportedNameBesideTheID(t *testing.T) {
	rows := (&app{}).meshFields(meshView{Mesh: "m-000000000000m", Label: "trainers", Owner: ownerView{Answers: true, Since: new(time.Time)}})
	require.Equal(t, [][2]string{{"mesh", "m-000000000000m"}, {"called", "trainers"}}, rows[:2])
	require.Equal(t, "owner", rows[5][0])
	require.Contains(t, rows[6][1], "restarts 0", "it belongs to the owner")
}

func TestExplanation_coversMissingLeasesAndMissingHosts(t *testing.T) {
	one := shape.Of("gpu", 2)
	v := meshView{
		Mesh: "m-000000000000m", Ranks: 2, Phase: "running", base: one, perHost: 2, Owner: ownerView{Why: "gone"},
		Statuses: []statusRun{{Region: "*", Ranks: 2, Status: "running"}},
	}
	require.Equal(t, []string{"no host reports a lease: live procs run until `castnet stop`"}, v.explanation().Next)
	v = meshView{
		Mesh: "w-000000000000m", Ranks: 2, Phase: "running", base: one, perHost: 1, Owner: ownerView{Answers: true}, World: &worldView{Status: system.StatusUnhealthy},
		Statuses: []statusRun{{Region: "gpu=0", Ranks: 1, Status: "running"}, {Region: "gpu=1", Ranks: 1, Status: "not-exist"}},
	}
	require.Equal(t, "w-000000000000m is unhealthy: of its 2 ranks 1 not-exist, 1 running", v.explanation().Answer)
}

// The system controller knows the hosts of a world that have created nothing, and why.
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
		desc:      agent.Mesh{ID: mesh, Extent: shape.Of("x", 5), PerHost: 1, World: &agent.WorldShare{World: "train", Count: 5}, Hosts: make([]subjects.HostID, 5)},
		liveHosts: []subjects.HostID{ids["here"], ids["slow"], ids["shut"]},
		states:    map[int]agent.State{0: {Rank: 0, Status: agent.Status{Phase: agent.Running}}},
		world: &system.WorldState{
			Status: system.StatusUnhealthy, Reason: "proc train/2.0: it is lost",
			Hosts: []system.HostState{{Rank: 0, ID: ids["here"], Count: 1}, {Rank: 1, ID: ids["slow"], Count: 1}, {Rank: 2, ID: ids["gone"], Count: 1, Lost: "no heartbeat"}, {Rank: 3, ID: ids["shut"], Count: 1}},
			Procs: []system.ProcState{proc(0, system.HealthAlive, ""), proc(2, system.HealthExpired, "host gone-0000000000000 is lost: no heartbeat"), proc(3, system.HealthEnded, "failed: command is not allowed")},
		},
	}
	x := w.view().explanation()
	require.Equal(t, "train-0000000000000 is unhealthy: of its 5 ranks 2 not-exist, 1 running, 2 failed", x.Answer)
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
	}, x.Todo)
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
