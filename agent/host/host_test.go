package host_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/agenttest"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestCreate_isIdempotent_AGT1(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mesh(t, 2)
	require.Equal(t, all(2, agent.Status{Phase: agent.Running}), r.create(t, m))
	before := r.states(t, m)
	require.Equal(t, all(2, agent.Status{Phase: agent.Running}), r.create(t, m))
	require.Equal(t, before, r.states(t, m))
	other := m
	other.Command.Args = []string{"-x"}
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &other})
	require.ErrorContains(t, err, "exists already with another spec")

	require.Equal(t, all(2, agent.Status{Phase: agent.Stopped, Reason: "enough"}), r.stop(t, m, 0))
	require.Equal(t, all(2, agent.Status{Phase: agent.Stopped, Reason: "enough"}), r.stop(t, m, 0))
	requireGone(t, before)
	_, err = agent.Stop.Call(t.Context(), r.agent(), agent.StopRequest{ID: "nobody"})
	require.NoError(t, err)
}

func TestCreate_refusesInvalidSpecsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	elsewhere := testproc.HostID(t, "b")
	for want, change := range map[string]func(*agent.Mesh){
		"has no share on host":            func(m *agent.Mesh) { m.Hosts = []subjects.HostID{elsewhere} },
		"lists host":                      func(m *agent.Mesh) { m.Hosts = append(m.Hosts, m.Hosts[0]) },
		"1 hosts × 3 procs are not the 2": func(m *agent.Mesh) { m.PerHost = 3 },
		"1 hosts × 0 procs":               func(m *agent.Mesh) { m.PerHost = 0 },
		"want at most 4096": func(m *agent.Mesh) {
			m.PerHost, m.Extent = 5000,
				shape.Of("gpu", 5000)
		},
		"4611686018427387905 procs on each host": func(m *agent.Mesh) {
			m.PerHost, m.Extent, m.Hosts = 1<<62+1, shape.Of("gpu", 4),
				append(m.Hosts, elsewhere, elsewhere, elsewhere)
		},
		"LD_PRELOAD changes how":      func(m *agent.Mesh) { m.Command.Env = []string{"LD_PRELOAD=x"} },
		"argument 2: want no NUL":     func(m *agent.Mesh) { m.Command.Args = []string{"a", "b\x00"} },
		"want KEY=value":              func(m *agent.Mesh) { m.Command.Env = []string{"x"} },
		"is not allowed on this host": func(m *agent.Mesh) { m.Command.Path = "/bin/sh" },
		`"/bin/s\x00h": want no NUL`:  func(m *agent.Mesh) { m.Command.Path = "/bin/s\x00h" },
		"want an absolute path":       func(m *agent.Mesh) { m.Command.Path = "sh" },
		"want at least 8 MiB":         func(m *agent.Mesh) { m.Limits.Memory = 1 },
		"want at least 16 (threads":   func(m *agent.Mesh) { m.Limits.Pids = 1 },
		"NaN cores: want 0.01":        func(m *agent.Mesh) { m.Limits.CPU = math.NaN() },
		"1025 cores: want 0.01":       func(m *agent.Mesh) { m.Limits.CPU = 1025 },
		"open files: want at least":   func(m *agent.Mesh) { m.Limits.Files = 5 },
		"binding to -1 CPUs":          func(m *agent.Mesh) { m.Limits.PinnedCPUs = -1 },
	} {
		m := r.mesh(t, 2)
		change(&m)
		_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
		require.ErrorContains(t, err, want)
		require.Empty(t, r.states(t, m))
	}
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{})
	require.ErrorContains(t, err, "want the field procs")
}

func TestHost_refusesATakenLabel_HOST1(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := host.Start(t.Context(), r.options(t, "a"))
	require.ErrorContains(t, err, `host label "a" is taken by `+r.host.ID().String())
	_, err = host.Start(t.Context(), r.options(t, "two words"))
	require.ErrorContains(t, err, `"two words"`)
	_, err = host.Start(t.Context(), host.Options{Label: "b"})
	require.ErrorContains(t, err, "want a bus")
	second, err := host.Start(t.Context(), r.options(t, "b"))
	require.NoError(t, err)
	hosts, _, err := agent.DiscoverHosts(t.Context(), r.client.Bus(), r.client.Space(), 200*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, []string{hosts[0].Label, hosts[1].Label})
	require.NoError(t, second.Close(t.Context()))
	third, err := host.Start(t.Context(), r.options(t, "b"))
	require.NoError(t, err, "free again")
	require.NoError(t, third.Close(t.Context()))
}

func TestProc_killIsReportedAtOnceWithItsSignal_HOST3(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mesh(t, 2)
	r.create(t, m)
	pid := r.states(t, m)[1].Proc.PID
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	e := testkit.Next(t, r.events)
	require.Equal(t, []any{m.ID.String(), 1, 9, "failed", r.host.ID().String()},
		[]any{e.Mesh, e.Rank, e.Signal, e.Status, e.Host})
	require.Equal(t, "killed by signal 9 (killed)", e.Reason)
	require.Nil(t, e.ExitCode)
	s := r.states(t, m)
	require.Equal(t, agent.Running, s[0].Status.Phase)
	require.Equal(t, agent.Status{Phase: agent.Failed, Reason: e.Reason}, s[1].Status)
	require.Equal(t, 9, s[1].Proc.Signal)
	r.stop(t, m, 0)
	require.Equal(t, "stopped", testkit.Next(t, r.events).Status)
	require.Empty(t, r.events, "one event for each end")
}

func TestProc_earlyExitReportsStatusAndLastOutput_HOST3(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) { o.Allow = []string{"/bin/sh"} })
	m := r.shell(t, "for i in 1 2 3 4 5 6; do echo line $i >&2; done; exit 3")
	o := r.create(t, m)
	require.Equal(t, agent.Failed, o[0].Status.Phase)
	require.Equal(t, "exited with code 3\n  stderr: line 2\n  stderr: line 3\n  stderr: line 4\n  stderr: "+
		"line 5\n  stderr: line 6", o[0].Status.Reason)
	e := testkit.Next(t, r.events)
	require.Equal(t, 3, *e.ExitCode)
	require.Equal(t, o[0].Status.Reason, e.Reason)
	require.Contains(t, e.StderrTail, "line 6")
	o = r.create(t, r.shell(t, "exit 0"))
	require.Equal(t, agent.Status{Phase: agent.Failed,
		Reason: "exited with code 0 before it was ready: does its main call proc.Main first?"}, o[0].Status)
}

func TestReady_anotherBuildIsKilledNamingBoth_HOST4(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mesh(t, 1)
	m.Build = "0123456789ab"
	o := r.create(t, m)
	require.Equal(t, agent.Failed, o[0].Status.Phase)
	require.Contains(t, o[0].Status.Reason, m.Command.Path+" on host a is build ")
	require.Contains(t, o[0].Status.Reason, "the caller is build 0123456789ab")
	requireGone(t, r.states(t, m))
}

func TestReady_unlaunchedProcIsRefused_HOST4(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mesh(t, 1, roleVar+"=hangs")
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	stranger, _ := testproc.Start(t, r.Server, testproc.Options{Options: actor.Options{Bus: r.Open(t),
		Principal: subjects.Proc.Principal("a"),
	}})
	_, err = agent.Ready.Call(t.Context(), r.agent().Via(stranger),
		agent.ReadyReport{Proc: subjects.ProcID{Mesh: m.ID}, Proof: []byte("guess")})
	require.ErrorContains(t, err, "has not the secret that host")
	_, err = agent.Ready.Call(t.Context(), r.agent().Via(stranger),
		agent.ReadyReport{Proc: subjects.ProcID{Mesh: m.ID, Rank: 7}, Proof: []byte("guess")})
	require.ErrorContains(t, err, "was not launched by host")
	require.Equal(t, agent.Initializing, r.states(t, m)[0].Status.Phase)
	require.Equal(t, agent.Stopped, r.stop(t, m, time.Second)[0].Status.Phase)
	requireGone(t, r.states(t, m))
}

func TestReady_procThatIsNotReadyInTimeIsKilled_HOST4(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *host.Options) { o.ReadyTimeout = 300 * time.Millisecond })
	m := r.mesh(t, 1, roleVar+"=hangs")
	why := "not ready within 300ms: its program has to call proc.Main by then"
	require.Equal(t, all(1, agent.Status{Phase: agent.Failed, Reason: why}), r.create(t, m))
	requireGone(t, r.states(t, m))
}

func TestStop_procThatIgnoresTermIsKilledAfterTheGrace_HOST5(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mesh(t, 1, roleVar+"=stubborn")
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	r.ignoreTerm(t, m)
	o := r.stop(t, m, 300*time.Millisecond)
	require.Equal(t, all(1, agent.Status{Phase: agent.Stopped, Reason: "did not stop in time: killed by " +
		"signal 9 (killed)"}), o)
	requireGone(t, r.states(t, m))
	require.True(t, r.states(t, m)[0].Proc.GraceExpired)
	e := testkit.Next(t, r.events)
	require.Equal(t, []string{"proc.stop.timeout", "stopping", "did not stop in time: sending SIGKILL"},
		[]string{e.Step, e.Status, e.Reason})
	require.Equal(t, []any{m.ID.String(), 0, r.host.ID().String()}, []any{e.Mesh, e.Rank, e.Host})
	end := testkit.Next(t, r.events)
	require.Equal(t, []any{"proc.exit.signal", "stopped", 9}, []any{end.Step, end.Status, end.Signal})
	require.False(t, end.At.Before(e.At), "after it")
	require.Empty(t, r.events)
}

func TestKeys_procAndHostGracePeriodsDiffer(t *testing.T) {
	t.Parallel()
	for procs, short := range map[int]keys.Key[time.Duration]{1: keys.TerminateGraceSingle,
		2: keys.TerminateGrace} {
		c := &keys.Config{}
		require.NoError(t, keys.TerminateGraceSingle.Set(c, time.Hour))
		require.NoError(t, keys.TerminateGrace.Set(c, time.Hour))
		require.NoError(t, short.Set(c, 100*time.Millisecond))
		r := newRig(t, func(o *host.Options) { o.Config = c })
		m := r.mesh(t, procs, roleVar+"=stubborn")
		_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
		require.NoError(t, err)
		r.ignoreTerm(t, m)
		o := r.stop(t, m, 0)
		require.Equal(t, all(procs, agent.Status{Phase: agent.Stopped, Reason: "did not stop in time: killed by " +
			"signal 9 (killed)"}), o)
		r.close()
	}
}

func TestKey_logsTailLinesSetsTheReportedOutput(t *testing.T) {
	t.Parallel()
	for lines, want := range map[int]int{100: 100, 30: 30, 0: 0} {
		c := &keys.Config{}
		require.NoError(t, keys.LogsTailLines.Set(c, lines))
		r := newRig(t, withShell, func(o *host.Options) { o.Config = c })
		m := r.shell(t, "i=0; while [ $i -lt 150 ]; do echo line $i >&2; i=$((i+1)); done; exit 3")
		require.Equal(t, agent.Failed, r.create(t, m)[0].Status.Phase)
		tail := r.states(t, m)[0].Proc.StderrTail
		require.Len(t, tail, want)
		if want > 0 {
			require.Equal(t, "line 149", tail[want-1])
		}
		r.close()
	}
}

func TestStop_repliesAfterAllEndsOfTheMeshAreReported_HOST3(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	busy, quick := r.mesh(t, 1, roleVar+"=stubborn"), r.mesh(t, 2)
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &busy})
	require.NoError(t, err)
	r.create(t, quick)
	r.ignoreTerm(t, busy)
	var mu sync.Mutex
	told := map[string]int{}
	defer r.host.Observe(func(e actor.Event) {
		e.Each(func(e actor.Event) {
			if e.Kind == actor.KindProc && e.Terminal() {
				mu.Lock()
				defer mu.Unlock()
				told[e.Mesh]++
			}
		})
	})()
	require.NoError(t, agent.Stop.Send(t.Context(), r.agent(),
		agent.StopRequest{ID: busy.ID.String(), Grace: time.Minute}))
	require.Equal(t, agent.ShuttingDown, r.wait(t, busy, agent.ShuttingDown)[0].Status.Phase)
	r.stop(t, quick, 0)
	mu.Lock()
	require.Equal(t, map[string]int{quick.ID.String(): 2}, told)
	mu.Unlock()
	r.stop(t, busy, time.Millisecond)
}

// ignoreTerm waits until the stubborn procs of a mesh ignore TERM.
func (r *rig) ignoreTerm(t *testing.T, m agent.Mesh) {
	t.Helper()
	require.Eventually(t, func() bool {
		tails, err := agent.Logs.Call(t.Context(), r.agent(), agent.LogsRequest{ID: m.ID.String(), Lines: 1})
		said := 0
		for _, tail := range tails {
			said += len(tail.Lines)
		}
		return err == nil && said == m.PerHost
	}, 20*time.Second, 10*time.Millisecond)
}

func TestClose_leavesNoProcessAndReportsEachEnd_HOST5(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mesh(t, 2)
	r.create(t, m)
	running := r.states(t, m)
	late := r.mesh(t, 2) // perhaps not even launched when the host closes
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &late})
	require.NoError(t, err)
	r.close()
	requireGone(t, running)
	ends := map[string]int{}
	for range 4 {
		e := testkit.Next(t, r.events)
		require.True(t, e.Terminal())
		ends[e.Mesh]++
	}
	require.Equal(t, map[string]int{m.ID.String(): 2, late.ID.String(): 2}, ends)
	hosts, _, err := agent.DiscoverHosts(t.Context(), r.client.Bus(), r.client.Space(), 200*time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, hosts)
}

func TestLease_expiryStopsTheProcs_HOST5(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mesh(t, 1)
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m, Lease: time.Millisecond})
	require.NoError(t, err)
	o := r.wait(t, m, agent.Stopped)
	require.Equal(t, all(1, agent.Status{Phase: agent.Stopped,
		Reason: "orphaned: its owner was silent for 1ms"}), o)
	require.Contains(t, r.logs.String(),
		"lease expired: stopping the mesh: orphaned: its owner was silent for 1ms")
	require.Contains(t, r.logs.String(), m.Owner.String())
	require.Equal(t, "orphaned: its owner was silent for 1ms", testkit.Next(t, r.events).Reason,
		"and so does the event")

	kept := r.mesh(t, 1)
	_, err = agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &kept, Lease: time.Second})
	require.NoError(t, err)
	_, err = agent.Keepalive.Call(t.Context(), r.agent(), agent.Lease{ID: kept.ID.String(), TTL: time.Hour})
	require.NoError(t, err)
	over := time.Now().Add(2 * time.Second)
	testkit.Until(t, "the first lease is over", func() bool { return time.Now().After(over) })
	require.Equal(t, all(1, agent.Status{Phase: agent.Running}), r.wait(t, kept, agent.Running))
}

func TestLogs_arePublishedAndTheLastLinesKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mesh(t, 1)
	lines := make(chan string, 16)
	_, err := r.client.Bus().Data().Subscribe(r.client.Space().Logs(m.ID), func(msg bus.Msg) {
		for _, line := range strings.Split(string(msg.Data), "\n") {
			lines <- msg.Subject + " " + line
		}
	})
	require.NoError(t, err)
	r.create(t, m)
	at := subjects.ProcID{Mesh: m.ID}
	_, err = agent.Create.Call(t.Context(), agent.Of(at).Via(r.client),
		agent.CreateRequest{Actors: &agent.ActorSpec{
			Name: "talker", Type: "talker", Params: encode(t, actor.None{}), Owner: m.Owner,
		}})
	require.NoError(t, err)
	o, err := agent.Wait.Call(t.Context(), agent.Of(at).Via(r.client),
		agent.WaitRequest{ID: "talker", Until: agent.Running})
	require.NoError(t, err)
	require.Equal(t, agent.Running, o[0].Status.Phase, o[0].Status.Reason)
	for _, line := range []string{"one", "two", "three"} {
		_, err = say.Call(t.Context(), actor.RefOf[*talker](at.Actor("talker")).Via(r.client), line)
		require.NoError(t, err)
	}
	for _, line := range []string{"one", "two", "three"} {
		select {
		case got := <-lines:
			require.Equal(t, r.client.Space().Log(at, "stdout", r.host.Proc().Sender())+" "+line, got)
		case <-time.After(20 * time.Second):
			t.Fatal("no log line")
		}
	}
	tails, err := agent.Logs.Call(t.Context(), r.agent(), agent.LogsRequest{ID: m.ID.String(), Lines: 2})
	require.NoError(t, err)
	require.Len(t, tails[0].Times, 2)
	require.WithinDuration(t, time.Now(), tails[0].Time(0), 20*time.Second)
	tails[0].Times = nil
	require.Equal(t, []agent.LogTail{{Stream: "stdout", Lines: []string{"two", "three"}},
		{Stream: "stderr"}}, tails)
}

func TestForeign_anyClientCanQueryAHost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, who := range []string{"any", r.host.ID().String()} {
		m, err := r.client.Bus().Control().Request(t.Context(),
			bus.Msg{Subject: "castnet.v1.default.hr." + who + ".info.u-anon.x"})
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(m.Data, &got))
		require.Equal(t, "a", got["label"])
		require.Equal(t, r.host.ID().String(), got["id"])
		require.EqualValues(t, os.Getpid(), got["pid"])
		require.Equal(t, "v0", got["version"])
		require.NotEmpty(t, got["build"])
	}
	to := "hw." + r.host.ID().String()
	for verb, want := range map[string]string{to + ".nonsense": "404", to + ".stop": "400", "hr.any.get": "400"} {
		m, err := r.client.Bus().Control().Request(t.Context(),
			bus.Msg{Subject: "castnet.v1.default." + verb + ".u-anon.x", Data: []byte(`[`)})
		require.NoError(t, err)
		require.Equal(t, want, m.Header.Get(actor.HeaderErrorCode), verb)
	}
	for verb, want := range map[string]string{"hr.any.stop-all": "want it on hw.", to + ".info": "want it on hr."} {
		m, err := r.client.Bus().Control().Request(t.Context(),
			bus.Msg{Subject: "castnet.v1.default." + verb + ".u-anon.x"})
		require.NoError(t, err)
		require.Contains(t, m.Header.Get(actor.HeaderError), want, verb)
	}
	_, err := agent.Ping.Call(t.Context(), actor.RefOf[agent.Agent](r.host.ID().Proc().Actor(agent.Name)).Via(r.client),
		actor.None{})
	require.NoError(t, err, "it runs on")
}

func TestHost_fulfilsTheAgentContract(t *testing.T) { // AGT-9
	t.Parallel()
	for mode, fresh := range map[string]func(t *testing.T) *rig{
		"processes":      func(t *testing.T) *rig { return newRig(t) },
		"in_its_process": func(t *testing.T) *rig { return newBubbleRig(t) },
		"sharing_a_proc": func(t *testing.T) *rig { r := newBubbleRig(t); r.perProcess = 2; return r },
	} {
		test := agenttest.TestAgentInBubbles
		if mode == "processes" {
			test = agenttest.TestAgent
		}
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T) agenttest.Fixture {
				r := fresh(t)
				s := agenttest.Fixture{
					Agent: r.agent(), Client: r.client, Recreatable: true, Leases: true,
					New: func(t *testing.T) agent.CreateRequest { m := r.mesh(t, 2); return agent.CreateRequest{Procs: &m} },
					ID:  func(c agent.CreateRequest) string { return c.Procs.ID.String() },
					Other: func(c agent.CreateRequest) agent.CreateRequest {
						m := *c.Procs
						m.Command.Args = append(m.Command.Args, "-x")
						return agent.CreateRequest{Procs: &m}
					},
				}
				if mode == "processes" {
					s.Failing = func(t *testing.T) agent.CreateRequest {
						m := r.mesh(t, 1, roleVar+"=fails")
						return agent.CreateRequest{Procs: &m}
					}
				}
				return s
			})
		})
	}
}
