package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cmd/client/internal/logs"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestLogs_followMergesAndEndsWithTheMesh(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	_, up := c.up(t, "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	c.ok(t, "cast", "demo", "talker", "talk", `"one"`)
	c.ok(t, "cast", "demo", "talker", "grumble", `"ouch"`)
	c.ok(t, "call", "demo[gpu=1]", "talker", "talk", `"alone"`)
	folded := "[*] [2 similar lines] one from 0…1\n[host=0,gpu=1] alone from 1\n[* stderr] 2× ouch\n"
	require.Equal(t, folded, c.ok(t, "logs", "demo", "--merge"))

	require.Equal(t, "[host=0,gpu=1] alone from 1\n[host=0,gpu=1 stderr] ouch\n",
		c.ok(t, "logs", "demo[gpu=1]", "--grep", "alone|ouch", "--since", "1h"))
	require.Regexp(t, `^20\d\d-\d\d-\d\dT[0-9:]{8}Z \[host=0,gpu=1\] alone from 1\n$`,
		c.ok(t, "logs", "demo", "--grep", "alone", "--timestamps"))
	r := c.client(t, "logs", "demo", "--grep", "nowhere", "-o", "json")
	require.Equal(t, "[]\n", r.out)
	require.Equal(t, result{err: "no line matches\n"}, c.client(t, "logs", "demo", "--grep", "nowhere"))

	merged := start(t, c.env, "logs", "demo", "-f", "--tail", "0", "--merge", "--merge-window", "20s")
	plain := start(t, c.env, "logs", "demo[gpu=1]", "-f", "--tail", "1")
	require.ElementsMatch(t, []string{"[host=0,gpu=1] alone from 1", "[host=0,gpu=1 stderr] ouch"},
		[]string{plain.Out.Line(t), plain.Out.Line(t)}, "it follows")
	for !t.Failed() { // until both follow; what all ranks have printed waits for no window
		c.ok(t, "cast", "demo", "talker", "talk", `"two"`)
		if merged.Out.Unread() != "" {
			break
		}
	}
	require.Equal(t, "[*] [2 similar lines] two from 0…1", merged.Out.Line(t))
	require.Equal(t, "[host=0,gpu=1] two from 1", plain.Out.Line(t))
	c.ok(t, "call", "demo[gpu=1]", "talker", "talk", `"last"`)
	c.ok(t, "stop", "demo")
	for _, b := range []*testkit.Process{merged, plain} {
		require.Zero(t, b.Exit(t), b.Err)
		b.Out.Find(t, "[host=0,gpu=1] last from 1")
	}
	require.Equal(t, "demo has ended: 2 procs stopped\n", merged.Err.String())
	require.Equal(t, "demo[gpu=1] has ended: 1 proc stopped\n", plain.Err.String())

	require.Contains(t, c.ok(t, "logs", "demo[gpu=1]", "--tail", "1"), "[host=0,gpu=1] last from 1\n",
		"kept after death")
	r = c.client(t, "logs", up.Mesh, "-f", "--tail", "1", "-o", "ndjson")
	require.Zero(t, r.code, r.err)
	require.Len(t, decodeLines[logs.Record](t, r.out), 4)
	require.Equal(t, up.Mesh+" has ended: 2 procs stopped\n", r.err)
	require.Equal(t, cli.ExitNotFound, c.client(t, "logs", "nobody").code)
}

func TestLogs_followReportsFailedProcs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.up(t, "--per-host", "gpu=2", "--command", os.Args[0], "--actor", "talker")
	b := start(t, c.env, "logs", "demo[gpu=0]", "-f")
	c.kill(t, "demo", "gpu=0")
	require.Zero(t, b.Exit(t), b.Err)
	require.Equal(t, "demo[gpu=0] has ended: 1 of 1 proc failed\n", b.Err.String())
}

func TestLogs_followContinuesWithTheNextGeneration(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	again := mesh.RestartPolicy{Restart: mesh.Transient}
	p := c.own(t, mesh.SpawnSpec{Name: "demo", PerHost: shape.Of("gpu", 1),
		Command: mesh.Command{Path: os.Args[0]}, RestartPolicy: again})
	talkers, err := mesh.SpawnActors(t.Context(), p, talkerType,
		mesh.ActorSpawnSpec[actor.None]{Label: "talker", RestartPolicy: again})
	require.NoError(t, err)
	b := start(t, c.env, "logs", "demo", "-f", "--tail", "0")
	for b.Out.Unread() == "" && !t.Failed() { // until it follows
		c.ok(t, "cast", "demo", "talker", "talk", `"first"`)
	}
	c.kill(t, "demo", "gpu=0") // the only rank: for a moment all have ended
	for e, err := range talkers.Changes(t.Context()) {
		require.NoError(t, err)
		if e.Step == "rank.restart.success" {
			break
		}
	}
	c.ok(t, "cast", "demo", "talker", "talk", `"second"`)
	for line := b.Out.Line(t); line != "[host=0,gpu=0] second from 0"; line = b.Out.Line(t) {
		require.Equal(t, "[host=0,gpu=0] first from 0", line)
	}
	require.NoError(t, p.Stop(t.Context()))
	require.Zero(t, b.Exit(t), b.Err)
	require.Equal(t, "[host=0,gpu=0] runs again, as generation 1\ndemo has ended: 1 proc stopped\n",
		b.Err.String())
}

func TestLogs_followEndsWithAMeshThatLostItsOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	up, _ := c.up(t, "--per-host", "gpu=2", "--actor", "echo", "--lease", "5s") // a busy one renews it in time
	b := start(t, c.env, "logs", "demo", "-f")
	up.Send(t, os.Kill)
	require.Zero(t, b.Exit(t), b.Err)
	require.Equal(t, "demo has ended: 2 procs stopped\n", b.Err.String())
}

// manyHosts are simulated hosts of one mesh, with one rank each.
type manyHosts struct {
	infos      []agent.HostInfo
	desc       agent.Mesh
	late       bool   // a third of them do not list their procs
	logTrouble string // of the last one
	searched   gate   // counts the hosts that were asked for their procs
	asked      gate   // counts those asked for logs
}

// gate counts arrivals, and opens at a number of them.
type gate struct {
	at      int64
	arrived atomic.Int64
	open    chan struct{}
}

func newGate(at int64) gate { return gate{at: at, open: make(chan struct{})} }

func (g *gate) pass(ctx context.Context) {
	if g.arrived.Add(1) == g.at {
		close(g.open)
	}
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

// fakeHost is the agent of one of them.
type fakeHost struct {
	agent.Agent
	*manyHosts
	rank int
}

func (h *fakeHost) Get(ctx *actor.Context, _ agent.GetRequest) ([]agent.State, error) {
	h.searched.pass(ctx)
	if h.late && h.rank%3 == 1 {
		return nil, errors.New("too late")
	}
	return []agent.State{{ID: h.desc.ID.String(), Rank: h.rank, Status: agent.Status{Phase: agent.Running},
		Mesh: &h.desc}}, nil
}

// Logs waits until every host was asked.
func (h *fakeHost) Logs(ctx *actor.Context, _ agent.LogsRequest) ([]agent.LogTail, error) {
	h.asked.pass(ctx)
	return []agent.LogTail{{Rank: h.rank, Stream: "stdout", Lines: []string{"ready"}}}, nil
}

// start starts the agents, and answers searches in their names.
func (m *manyHosts) start(t *testing.T, c *cluster, n int) {
	m.searched = newGate(int64(min(n, 128)))
	m.asked = newGate(int64(n))
	m.desc = agent.Mesh{ID: testproc.MeshID(t, "demo"), Extent: shape.Of("host", n), PerHost: 1,
		Command: agent.Command{Path: agent.Builtin}}
	for rank := range n {
		id := testproc.HostID(t, fmt.Sprintf("h%03d", rank))
		m.infos = append(m.infos, agent.HostInfo{ID: id, Label: id.Label(), Mode: agent.ModeOpen})
		m.desc.Hosts = append(m.desc.Hosts, id)
	}
	m.infos[n-1].LogTrouble = m.logTrouble
	m.desc.Owner = m.desc.Hosts[0].Proc().Actor("controller")
	typ := actor.NewType[agent.Agent, actor.None](agent.HostType)
	for rank, info := range m.infos {
		p, _ := testproc.Start(t, c.Server, testproc.Options{Options: actor.Options{ID: info.ID.Proc(), Bus: c.Open(t)}},
			typ.Define(
				func(*actor.Context, actor.None) (agent.Agent, error) { return &fakeHost{manyHosts: m, rank: rank}, nil },
				append(agent.Methods(), agent.Info.Handle(
					func(agent.Agent, *actor.Context, actor.None) (agent.HostInfo, error) { return info, nil }))...))
		_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: typ.Name(), Name: agent.Name, Params: actor.None{}})
		require.NoError(t, err)
	}
	search := c.Open(t).Control()
	_, err := search.Subscribe(c.Net.Proc().Space().HostReads(subjects.Any, ""), func(q bus.Msg) {
		for _, info := range m.infos {
			answer, err := json.Marshal(info)
			require.NoError(t, err)
			_ = search.Publish(q.Reply, answer)
		}
	})
	require.NoError(t, err)
	require.NoError(t, search.Flush(t.Context()))
}

// On a busy machine, hosts are too late for the search, and answer the request for lines.
func TestLogs_ofManyHostsAskAllAtOnceAndNameNoHostWhoseLinesCame(t *testing.T) {
	const hosts = 160
	c := newCluster(t)
	m := &manyHosts{late: true}
	m.start(t, c, hosts)
	begun := time.Now()
	r := c.client(t, "logs", "demo", "--timeout", "1m")
	t.Logf("the lines of %d hosts took %v", hosts, time.Since(begun))
	require.Zero(t, r.code, r.err)
	require.Empty(t, r.err)
	require.Equal(t, hosts, strings.Count(r.out, "] ready\n"))
	require.EqualValues(t, hosts, m.asked.arrived.Load(), "each once")
}

func TestFullLogDisk_isSaidByLogsHostsAndExplain(t *testing.T) {
	c := newCluster(t)
	m := &manyHosts{logTrouble: "the disk of /var is nearly full"}
	m.start(t, c, 2)
	const want = "output may be lost on h001: the disk of /var is nearly full\n"
	require.Equal(t, result{out: "[host=0] ready\n[host=1] ready\n", err: want}, c.client(t, "logs", "demo"))
	require.Regexp(t, `(?m)^h000 .* -$\n^h001 .* the disk of /var is nearly full$`, c.ok(t, "hosts"))
	require.Contains(t, c.client(t, "explain", "demo").out, "\n  "+want)
}

func TestLogs_followSaysThatTheBusIsSilentAndWhenItAnswersAgain(t *testing.T) {
	t.Parallel()
	env := noBus(t)
	b := start(t, append(env, roleVar+"=hostd"))
	dir := strings.TrimPrefix(env[len(env)-1], "PATH=")
	var local bus.LocalServer
	testkit.Until(t, "the hostd runs", func() (ok bool) {
		var err error
		local, err = bus.ReadLocal(filepath.Join(dir, "castnet", "local.json"))
		return err == nil
	})
	other := start(t, append(env, roleVar+"=hostd", "HOSTD_LABEL=b", "NATS_URL="+local.URL, "NATS_TOKEN="+local.Token))
	require.Equal(t, "ready", other.Out.Line(t))
	up := start(t, env, "up", "--per-host", "gpu=2", "-o", "ndjson", "--command", os.Args[0], "--actor", "talker")
	up.Out.Line(t)
	follow := start(t, env, "logs", "demo", "-f")
	r := runClient(t, env, "cast", "demo", "talker", "talk", `"one"`)
	require.Zero(t, r.code, r.err)
	for range 4 {
		follow.Out.Line(t)
	}
	for _, p := range []*testkit.Process{up, b} { // its owner cannot judge the silence either
		proctest.Suspend(t, p.PID())
		t.Cleanup(func() { _ = p.Process.Signal(syscall.SIGCONT) }) // fails when it has ended
	}
	require.Equal(t, "castnet: the bus does not answer", follow.Err.Line(t))
	proctest.Resume(t, b.PID())
	require.Equal(t, "castnet: the bus answers again", follow.Err.Line(t))
	proctest.Resume(t, up.PID())
	require.Zero(t, exit(t, follow, os.Interrupt), follow.Err)
	require.Zero(t, exit(t, up, os.Interrupt), up.Err)
	exit(t, other, os.Interrupt)
	exit(t, b, os.Interrupt)
}
