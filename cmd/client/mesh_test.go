package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

// own spawns procs owned by the tests' own process.
func (c *cluster) own(t *testing.T, s mesh.SpawnSpec) mesh.ProcMesh {
	t.Helper()
	conn := c.Connect(t)
	hosts, err := conn.Hosts(t.Context())
	require.NoError(t, err)
	if s.Command.Path == "" {
		s.Command.Path = agent.Builtin
	}
	p, err := hosts.SpawnProcs(t.Context(), s)
	require.NoError(t, err)
	return p
}

// explained asks for the explanation until it is the expected one: owners learn of changes a moment
// later.
func (c *cluster) explained(t *testing.T, name string, enough func(inspect.Explanation) bool) (
	x inspect.Explanation) {
	t.Helper()
	require.Eventually(t, func() bool {
		x = decode[inspect.Explanation](t, c.ok(t, "explain", name, "-o", "json"))
		return enough(x)
	}, testkit.Patience, 50*time.Millisecond)
	return x
}

func TestWait_endsWithItsConditionAndOtherwiseSaysTheLastState(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	up, m := c.up(t, "--per-host", "gpu=2")
	for _, condition := range []string{"running", "live"} {
		all := decode[[]waitRecord](t, c.ok(t, "wait", "demo", "--for", condition, "-o", "json"))
		all[0].Took = 0
		require.Equal(t, []waitRecord{{Mesh: m.Mesh, Condition: condition, Phase: "running", Running: 2, Ranks: 2}}, all)
	}
	c.eventually(t, func(r result) bool {
		return r.code == cli.ExitTimeout &&
			r.err == "castnet: it is not ended in time: "+m.Mesh+" is running: all its 2 ranks\n"
	}, "wait", "demo", "--for", "ended", "--timeout", "4s")
	waiting := start(t, c.env, "wait", "demo", "--for", "ended", "--timeout", "1m")
	c.ok(t, "stop", "demo")
	require.Zero(t, waiting.Exit(t), waiting.Err)
	waiting.Out.Find(t, "ended")
	require.Zero(t, up.Exit(t))
	r := c.client(t, "wait", "demo")
	require.Equal(t, cli.ExitFailure, r.code)
	require.Equal(t, "castnet: it will not be running: "+m.Mesh+" is stopped: of its 2 ranks 2 stopped\n", r.err)
}

func TestMeshShow_printsTheOwnersView(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	_, up := c.up(t, "demo", "--per-host", "gpu=2", "--lease", "45s")
	v := saying(t, c, func(v inspect.View) bool { return v.Owner.Answering && len(v.Actors) > 0 },
		"mesh", "show", "demo", "-o", "json")
	require.Equal(t, up.Mesh, v.Mesh)
	require.Equal(t, "host=2,gpu=2", v.Extent)
	require.Equal(t, "running", v.Phase)
	require.Equal(t, []inspect.StatusRun{{Region: "*", Ranks: 4, Status: "running"}}, v.Statuses)
	require.Equal(t, "propagate", v.RestartPolicy)
	require.Equal(t, 45*time.Second, v.Owner.Lease)
	require.Len(t, v.Hosts, 2)
	require.Equal(t, up.Actor, v.Actors[0].Actor)
	require.Empty(t, v.Failures)
	text := c.shows(t, `(?m)^lease +45s: procs outlive`, "mesh", "show", up.Mesh)
	require.Regexp(t, `(?m)^extent +host=2,gpu=2: 4 procs on 2 hosts \(a, b\)$`, text)
	require.Regexp(t, `(?m)^\[\*\] +4 +running +-$`, text)
	c.shows(t, "^"+up.Mesh+" is running: all its 4 ranks\n$", "explain", "demo")
	require.Equal(t, inspect.Explanation{
		Mesh: up.Mesh, Phase: "running", Healthy: true, Answer: up.Mesh + " is running: all its 4 ranks",
		Causes: []inspect.Cause{}, Next: []string{}, Suggestions: []string{},
	}, c.explained(t, "demo", func(x inspect.Explanation) bool { return len(x.Causes) == 0 }),
		"lists are there when they are empty")

	c.kill(t, "demo", "host=1,gpu=0")
	x := c.explained(t, "demo", func(x inspect.Explanation) bool { return !x.Healthy })
	require.Len(t, x.Causes, 1, "%+v", x)
	require.Equal(t, "host=1,gpu=0", x.Causes[0].Region)
	require.Contains(t, x.Causes[0].Reason, "killed by signal 9")
	text = c.shows(t, `What happens next:\n  failed ranks do not restart \(propagate\)\n`, "explain", "demo")
	require.Contains(t, text, up.Mesh+
		" is running with 3 of its 4 ranks:\n  [host=1,gpu=0] failed: killed by signal 9")
	require.Contains(t, text, "castnet logs '"+up.Mesh+"[host=1,gpu=0]'")
	v = saying(t, c, func(v inspect.View) bool { return len(v.Failures) > 0 },
		"mesh", "show", "demo", "-o", "json")
	require.Equal(t, 9, v.Failures[0].Signal)
}

// CLI-C7.
func TestMeshShow_reportsASilentOwnerAndTheHostsView(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	b, up := c.up(t, "demo", "--per-host", "gpu=2", "--lease", "45s")
	exit(t, b, syscall.SIGKILL)
	v := saying(t, c, func(v inspect.View) bool { return strings.Contains(v.Owner.Reason, "is gone") },
		"mesh", "show", "demo", "-o", "json")
	require.False(t, v.Owner.Answering)
	require.Equal(t, "running", v.Phase)
	require.Equal(t, []inspect.StatusRun{{Region: "*", Ranks: 2, Status: "running"}}, v.Statuses)
	require.True(t, v.LeaseLeft > 0 && v.LeaseLeft <= 45*time.Second, "%s", v.LeaseLeft)
	c.shows(t, `is silent: .* is gone\n +the rest is reported by the hosts\n`, "mesh", "show", "demo")
	text := c.shows(t, up.Mesh+` is running, all of it, but:\n  its owner does not answer: .* is gone\n`,
		"explain", "demo")
	require.Regexp(t, `its lease expires in \d+s: then the hosts stop its procs`, text)
	require.Contains(t, text, "castnet stop "+up.Mesh)

	c.ok(t, "stop", "demo")
	text = c.ok(t, "explain", "demo")
	require.Contains(t, text, up.Mesh+" is stopped: of its 2 ranks 2 stopped:\n")
	require.Regexp(t, `it started \d+s ago, and no host remembers a later mesh of this name`, text)
	require.Contains(t, text, "nothing: it has ended")
}

func TestExplain_namesRestartTimesAndLostHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	p := c.own(t, mesh.SpawnSpec{
		Name: "again", PerHost: shape.Of("gpu", 2),
		RestartPolicy: controller.RestartPolicy{
			Restart: actor.Transient, Backoff: time.Hour, MaxBackoff: time.Hour,
		},
	})
	c.kill(t, "again", "host=0,gpu=1")
	x := c.explained(t, "again", func(x inspect.Explanation) bool { return !x.Healthy })
	require.Contains(t, x.Answer, "is running with 3 of its 4 ranks")
	require.Equal(t, "host=0,gpu=1", x.Causes[0].Region)
	require.Contains(t, x.Causes[0].Reason, "initializing: restarts: killed by signal 9")
	require.Regexp(t,
		`^\[host=0,gpu=1\] starts in (59m|1h0m), in generation 1 \(restart 1; transient: each rank at most 3 times within 1m0s, `+
			`backoff 1h0m0s to 1h0m0s\)$`, x.Next[0])
	c.shows(t, `(?m)^\[host=0,gpu=1\] +1 +a +1 +starts in `, "mesh", "show", "again")

	c.leave[1]()
	x = c.explained(t, "again", func(x inspect.Explanation) bool { return x.Causes[0].Kind == "host" })
	require.Equal(t, "host=1,gpu=*", x.Causes[0].Region)
	require.Contains(t, x.Causes[0].Reason, "host b is ")
	require.Contains(t, x.Suggestions, "check hostd on b")
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

func TestMeshShow_showsTheCurrentGenerationOfARank(t *testing.T) {
	var out strings.Builder
	a := &output.Printer{Stdout: &out}
	require.NoError(t, showRestartedRanks(a, []inspect.RestartedRank{
		{RankHistory: controller.RankHistory{Gen: 3, Restarts: 3, Cause: "killed"}, Point: "gpu=0",
			Status: "failed"},
		{RankHistory: controller.RankHistory{Gen: 1, Restarts: 1, Cause: "killed", RestartPhase: "starting"},
			Point: "gpu=1", Status: "initializing"},
	}))
	require.Regexp(t, `(?m)^\[gpu=0\] +3 +- +3 +failed +killed$`, out.String())
	require.Regexp(t, `(?m)^\[gpu=1\] +1 +- +1 +starting +killed$`, out.String())
}

func TestMeshShow_printsTheReportedNameBesideTheID(t *testing.T) {
	rows := meshFields(&output.Printer{},
		inspect.View{Mesh: "m-000000000000m", Label: "trainers",
			Owner: inspect.Owner{Answering: true, Since: new(time.Time)}})
	require.Equal(t, [][2]string{{"mesh", "m-000000000000m"}, {"called", "trainers"}}, rows[:2])
	require.Equal(t, "owner", rows[5][0])
	require.Contains(t, rows[6][1], "restarts 0", "it belongs to the owner")
}

func TestUp_endsWithTheFirstFailureAndItsLastWordsWhileOthersStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	r := c.client(t, "up", "--per-host", "gpu=2", "--command", "/bin/sh", "--arg", "-c", "--arg",
		`[ $CASTNET_RANK = 1 ] && { echo no such model >&2; exit 3; }; exec sleep 600`)
	require.Equal(t, cli.ExitFailure, r.code)
	require.Regexp(t, `^castnet: 1 of 2 ranks of demo-\w+ did not start on a-\w+: `+
		`\[host=0,gpu=1\] exited with code 3\n  stderr: no such model\n$`, r.err)
}
