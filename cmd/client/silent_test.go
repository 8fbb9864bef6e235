package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// eventually runs a command until its outcome is the expected one.
func (c *cluster) eventually(t *testing.T, good func(result) bool, args ...string) (r result) {
	t.Helper()
	require.Eventually(t, func() bool {
		r = c.client(t, args...)
		return good(r)
	}, testkit.Patience, 50*time.Millisecond, "client %v: %+v", args, &r)
	return r
}

// shows runs a command, which must succeed, until its results match a pattern. A command prints its
// results without the owners and procs that take more than two seconds to answer.
func (c *cluster) shows(t *testing.T, pattern string, args ...string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	r := c.eventually(t, func(r result) bool { return r.code == cli.ExitOK && want.MatchString(r.out) }, args...)
	return r.out
}

// saying returns the document of a command once it is the expected one, as shows does.
func saying[T any](t *testing.T, c *cluster, good func(T) bool, args ...string) (v T) {
	t.Helper()
	c.eventually(t, func(r result) bool {
		if r.code != cli.ExitOK {
			return false
		}
		v = decode[T](t, r.out)
		return good(v)
	}, args...)
	return v
}

func TestSilentHost_isNamedByEveryCommandWithExitCode4_INS1(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.hostd(t, "a")
	b := c.hostd(t, "b")
	_, up := c.up(t, "noise", "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	c.ok(t, "cast", "noise", "talker", "talk", `"hello"`)
	require.Regexp(t, `^HOST  STATUS  ID +PROCS  CPUS  PID +AGE +VERSION\na +alive .*\nb +alive .*\n$`,
		c.ok(t, "hosts"))
	c.up(t, "ended", "--command", os.Args[0])
	c.ok(t, "stop", "ended")
	proctest.Suspend(t, b.PID())
	t.Cleanup(func() { _ = b.Process.Signal(syscall.SIGCONT) }) // fails when it has ended

	r := c.client(t, "wait", "noise", "--for", "live", "--timeout", "5s")
	require.Equal(t, cli.ExitTimeout, r.code, "its owner has not noticed")
	require.Contains(t, r.err, "it is not live in time: ")
	r = c.client(t, "hosts")
	require.Equal(t, cli.ExitPartial, r.code, r.err)
	require.Contains(t, r.err, "1 of 2 hosts did not answer: b (", "also before its watchers know")
	r = c.eventually(t, func(r result) bool { return strings.Contains(r.err, "last heard") }, "hosts")
	require.Equal(t, cli.ExitPartial, r.code, r.err)
	require.Regexp(t,
		`(?m)^a +alive .*\nb +(suspect|unknown|dead) +b-\w+ +- +- +- +- +- +last heard \S+ ago$`, r.out)
	require.Regexp(t,
		`^castnet: 1 of 2 hosts did not answer: b \((suspect|unknown|dead), last heard \S+ ago\)\n$`, r.err)
	states := decode[[]mesh.HostState](t, c.client(t, "hosts", "-o", "json").out)
	require.Len(t, states, 2)
	require.Equal(t, agent.HostAlive, states[0].State)
	require.Positive(t, states[1].Silence)

	// The silence begins again: a host that is silent for long counts as dead, and has no unknown mesh.
	proctest.Resume(t, b.PID())
	c.eventually(t, func(r result) bool { return r.code == cli.ExitOK }, "hosts")
	proctest.Suspend(t, b.PID())
	c.eventually(t, func(r result) bool { return strings.Contains(r.err, "last heard") }, "hosts")
	c.silenceIsReported(t, up.Mesh)

	proctest.Resume(t, b.PID())
	c.eventually(t, func(r result) bool { return r.code == cli.ExitOK }, "procs", "noise")
	c.ok(t, "hosts")
}

// silenceIsReported runs commands concurrently, because each waits for the silent host b.
func (c *cluster) silenceIsReported(t *testing.T, noise string) {
	t.Run("commands", func(t *testing.T) {
		each := func(command string, code int, check func(t *testing.T, r result)) {
			t.Run(command, func(t *testing.T) {
				t.Parallel()
				r := c.client(t, strings.Fields(command)...)
				require.Equal(t, code, r.code, r.err)
				check(t, r)
			})
		}
		each("procs noise", cli.ExitPartial, func(t *testing.T, r result) {
			require.Regexp(t, `(?m)^`+noise+` +0 +host=0,gpu=0 +a +\d+ +\S+ +\S+ +\d+Mi +running +- +-\n`, r.out)
			require.Regexp(t, `(?m)^`+noise+` +2 +host=1,gpu=0 +b +- +- +- +- +(unknown|failed) +- +host b`, r.out)
			require.Regexp(t,
				`^castnet: 2 of 4 ranks of noise missing: no answer from b \(\w+, last heard \S+ ago\)\n$`, r.err)
		})
		each("procs noise[host=0]", cli.ExitOK, func(*testing.T, result) {}) // no rank of the region is there
		each("procs", cli.ExitPartial, func(*testing.T, result) {})
		each("meshes", cli.ExitPartial, func(t *testing.T, r result) {
			require.Regexp(t, noise+` +mesh +host=2,gpu=2 +2/4 +a,b +client-\w+ +(unknown|running) `, r.out)
		})
		each("top --interval 1ms", cli.ExitPartial, func(t *testing.T, r result) {
			require.Regexp(t,
				`(?m)^HOST +STATUS +PROCS +CPU +MEM +MSG/S +QUEUED +HANDLED\nb +(suspect|unknown|dead) +- +`, r.out)
			require.Contains(t, r.err, "1 of 2 hosts did not answer: b (")
		})
		each("hosts cordon b", cli.ExitTimeout, func(t *testing.T, r result) {
			require.Regexp(t,
				`^castnet: host b \(\w+, last heard \S+ ago\) is known, but does not answer\n$`, r.err)
		})
		each("logs noise --tail 1", cli.ExitPartial, func(t *testing.T, r result) {
			require.Contains(t, r.out, "from 0")
			require.NotContains(t, r.out, "from 2")
			require.Contains(t, r.err, "2 of 4 ranks of noise missing: no answer from b (")
		})
		each("doctor -o json", cli.ExitPartial, func(t *testing.T, r result) {
			require.Regexp(t, `"1 of 2 answer; silent: b \(\w+, last heard \S+ ago\)"`, r.out)
		})
		// no command reports a missing mesh, because b may have it
		for _, command := range []string{
			"procs nothing", "procs nothing --links", "mesh show nothing", "mesh restart nothing", "explain nothing",
			"logs nothing", "where nothing/0", "exec nothing -- true", "stop nothing", "adopt nothing",
			"cast nothing talker talk", "config show nothing", "hosts restart --label zone=x", "hosts --label zone=x",
		} {
			each(command, cli.ExitPartial, func(t *testing.T, r result) {
				require.Contains(t, r.err, "does not exist")
				require.Equal(t, 1, strings.Count(r.err, "1 of 2 hosts did not answer: b ("), r.err)
			})
		}
		// a live mesh of the name may be on b
		for _, command := range []string{"logs ended", "mesh show ended", "explain ended"} {
			each(command, cli.ExitPartial, func(t *testing.T, r result) {
				require.Regexp(t, `(no answer from|did not answer:) b \(`, r.err)
			})
		}
	})
}

func TestSilentHost_namedHostThatAnswersLateIsFound(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.hostd(t, "a")
	b := c.hostd(t, "b")
	c.ok(t, "hosts")
	proctest.Suspend(t, b.PID())
	resume := func() { _ = b.Process.Signal(syscall.SIGCONT) } // fails when it has ended
	t.Cleanup(resume)
	defer time.AfterFunc(1500*time.Millisecond, resume).Stop() // a search waits 1 s for a known host
	require.Equal(t, "HOST  RESULT\nb     cordoned\n", c.ok(t, "hosts", "cordon", "b"))
}

func TestSilentHost_killedHostIsDeadUntilItReturns(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.hostd(t, "a")
	b := c.hostd(t, "b")
	require.Len(t, decode[[]mesh.HostState](t, c.ok(t, "hosts", "-o", "json")), 2)
	exit(t, b, syscall.SIGKILL)
	r := c.eventually(t, func(r result) bool {
		return r.code == cli.ExitPartial && len(r.out) > 0 && stateOf(t, r, "b") == agent.HostDead
	}, "hosts", "-o", "json")
	require.Contains(t, r.err, "b (dead, last heard ")

	back := c.hostd(t, "b")
	r = c.eventually(t, func(r result) bool { return r.code == cli.ExitOK }, "hosts", "-o", "json")
	require.Len(t, decode[[]mesh.HostState](t, r.out), 2, "it is listed once, under its new ID")
	require.Zero(t, exit(t, back, os.Interrupt))
	r = c.eventually(t, func(r result) bool { return r.code == cli.ExitOK }, "hosts", "-o", "json")
	require.Len(t, decode[[]mesh.HostState](t, r.out), 1, "it has left in order")
}

// stateOf is the state of a host in the output of hosts.
func stateOf(t *testing.T, r result, label string) string {
	for _, h := range decode[[]mesh.HostState](t, r.out) {
		if h.Label == label {
			return h.State
		}
	}
	return ""
}

func TestHosts_reportASearchCutByTheTimeout(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	var out strings.Builder
	a := &output.Printer{Stdout: &out, Format: output.JSON}
	err := listHosts(ctx, a, c.Net, target.HostSelector{})
	require.Equal(t, cli.ExitPartial, cli.ExitCode(err), err)
	require.EqualError(t, err, "the search for hosts ended at its deadline: more hosts may exist")
}

// A stranger answers searches for hosts, in fifty names.
func TestFalseHosts_blockNoCommandAndNoCast(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	stranger := c.Open(t).Control()
	space := c.Net.Proc().Space()
	_, err := stranger.Subscribe(space.HostReads(subjects.Any, ""), func(m bus.Msg) {
		for n := range 50 {
			id, err := subjects.ParseHostID(fmt.Sprintf("fake-%013d", n))
			require.NoError(t, err)
			answer, err := json.Marshal(agent.HostInfo{ID: id, Label: "fake", Mode: agent.ModeOpen})
			require.NoError(t, err)
			_ = stranger.Publish(m.Reply, answer)
		}
	})
	require.NoError(t, err)
	r := c.client(t, "hosts", "-o", "json")
	require.Equal(t, cli.ExitOK, r.code, r.err)
	require.Len(t, decode[[]mesh.HostState](t, r.out), 1)
	require.Equal(t, "left out 50 hosts that answered, but have no agent: fake, fake, fake, fake, fake and 45 more\n", r.err)
	b, up := c.up(t, "demo", "--per-host", "gpu=1")
	require.Equal(t, []string{"a"}, up.Hosts)
	require.Contains(t, b.Err.String(), "skipped hosts that take no procs: fake is unconfirmed")
	m, err := stranger.Request(testkit.Soon(t), bus.Msg{
		Subject: "castnet.v1.default.cast.demo.counter.add.u-anon.x", Data: []byte("5"),
	})
	require.NoError(t, err)
	require.Equal(t, "[5]", string(m.Data), m.Header)
	require.Contains(t, c.doctor(t, cli.ExitOK)["hosts"].Found, "1 of 1 answer; 50 others answered")
}
