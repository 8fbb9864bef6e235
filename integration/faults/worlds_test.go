package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/integration/faults/chaos"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// realm is a server with JetStream, two hostds with the system controller, and two hosts of a world
// under load.
type realm struct {
	*testing.T
	program, file string
	port          int
	url           string
	server        *child
	cluster       map[string]*child // its servers by name, in place of the one server
	client        *actor.Proc
	systems       []*machine
	hosts         []*machine
	holes         map[*machine]*chaos.Proxy // between a machine and the server
	mesh          string                    // of the world
	pids          []int                     // of its procs, by rank
	load          []*ticks                  // at each of them
	epoch         uint64
}

// The world under load.
const (
	loaded       = "loaded"
	loadedProcs  = 4
	procsPerHost = 2
)

func newRealm(t *testing.T, program string) *realm {
	t.Helper()
	r := &realm{T: t, program: program, holes: map[*machine]*chaos.Proxy{}}
	dir := t.TempDir()
	r.file = filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(r.file,
		fmt.Appendf(nil, "jetstream { store_dir: %q, sync_interval: always }\n", dir), 0o600))
	r.port = reservePort(t)
	r.startBus()
	r.begins()
	return r
}

// begins starts the hostds on a running server, and puts the world under load.
func (r *realm) begins() {
	r.Helper()
	r.client = newLookout(r.T, bus.Options{URL: r.url}).proc
	for _, label := range []string{"s1", "s2"} {
		r.systems = append(r.systems, r.startHostd(label, "--system"))
	}
	for rank, label := range []string{"a", "b"} {
		r.hosts = append(r.hosts, r.startHostd(label, "--world", loaded, "--host-rank", strconv.Itoa(rank)))
	}
	w := r.declare(loaded, tickers(r.T, loadedProcs))
	r.mesh = r.live(loaded).Mesh
	r.pids = r.processesOf(w.Mesh, r.hosts...)
	require.Len(r, r.pids, loadedProcs)
	r.startLoad()
}

// tickers is a world of procs with a ticker type.
func tickers(t *testing.T, procs int) system.Spec {
	return system.Spec{Shape: shape.Of("x", procs), PerHost: procsPerHost, Command: agent.Command{Path: self(t)}}
}

// startBus starts the server with the data of the last one.
func (r *realm) startBus() {
	var ready report
	r.server, ready = start(r.T, "server", "server", filepath.Dir(r.file),
		serverConfig{Port: r.port, ConfigFile: r.file})
	r.url = ready.URL
}

// startHostd starts a hostd, behind a proxy of its own unless the servers are a cluster.
func (r *realm) startHostd(label string, args ...string) *machine {
	r.Helper()
	if len(r.cluster) > 0 {
		return r.startHostdOn(r.url, label, args...)
	}
	at, err := url.Parse(r.url)
	require.NoError(r, err)
	hole, err := chaos.Start(at.Host)
	require.NoError(r, err)
	r.Cleanup(hole.Close)
	m := r.startHostdOn("nats://"+hole.Addr(), label, args...)
	r.holes[m] = hole
	return m
}

// startHostdOn starts a hostd on servers.
func (r *realm) startHostdOn(servers, label string, args ...string) *machine {
	r.Helper()
	m := newMachine(r.T, r.program, append([]string{"--nats", servers, "--gateway=false"}, args...)...)
	m.joins = true
	m.args[len(m.args)-1] = label
	m.start()
	return m
}

// declare declares a world, at any controller, with as many attempts as necessary.
func (r *realm) declare(name string, spec system.Spec) (w system.UpsertResponse) {
	r.Helper()
	require.Eventually(r, func() bool {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		ctl, err := system.Find(ctx, r.client)
		if err == nil {
			spec.Name = name
			w, err = system.Upsert.Call(ctx, ctl, system.UpsertRequest{Spec: spec})
		}
		return err == nil
	}, patience, 10*time.Millisecond, "world %s is not declared", name)
	return w
}

// snapshot is the controller's view of the system; false: none answers.
func (r *realm) snapshot() (now system.Snapshot, ok bool) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	ctl, err := system.Find(ctx, r.client)
	if err == nil {
		now, err = system.GetSnapshot.Call(ctx, ctl, system.Filter{})
	}
	return now, err == nil
}

// live waits until a controller of the known or a later term reports a world as live.
func (r *realm) live(name string) (w system.WorldState) {
	r.Helper()
	require.Eventually(r, func() bool {
		now, ok := r.snapshot()
		if !ok || now.Epoch < r.epoch {
			return false
		}
		for _, w = range now.Worlds {
			if w.Name == name && w.Status == system.StatusLive {
				r.epoch = now.Epoch
				return true
			}
		}
		return false
	}, patience, 5*time.Millisecond, "world %s is not live", name)
	return w
}

// leader is the machine with the acting controller: the one of the latest term.
func (r *realm) leader() (at *machine) {
	r.Helper()
	var latest uint64
	for _, m := range r.systems {
		data, err := os.ReadFile(m.log())
		require.NoError(r, err)
		for line := range strings.Lines(string(data)) {
			var said struct{ Epoch uint64 }
			if strings.Contains(line, "became the system controller") && json.Unmarshal([]byte(line), &said) == nil &&
				said.Epoch > latest {
				latest, at = said.Epoch, m
			}
		}
	}
	require.NotNil(r, at)
	return at
}

// processesOf are the running ones of a mesh, by rank. There is one of each.
func (r *realm) processesOf(mesh string, on ...*machine) (pids []int) {
	r.Helper()
	for _, m := range on {
		for _, s := range insist(m, agent.Get, agent.Of(m.id().Proc()).Via(r.client), agent.GetRequest{ID: mesh}) {
			if !s.Status.Phase.Terminal() {
				require.Equal(r, len(pids), s.Rank, "rank by rank")
				require.Zero(r, s.Gen)
				pids = append(pids, s.Proc.PID)
			}
		}
	}
	return pids
}

// startLoad calls an actor in each proc, until the end.
func (r *realm) startLoad() {
	r.Helper()
	id, err := subjects.ParseMeshID(r.mesh)
	require.NoError(r, err)
	for rank := range loadedProcs {
		of := subjects.ProcID{Mesh: id, Rank: uint32(rank)}
		spec := agent.ActorSpec{Name: "ticker", Type: "ticker", Params: []byte{0xa0},
			Owner: r.client.ID().Actor("owner")}
		host := r.hosts[rank/procsPerHost]
		insist(host, agent.Create, agent.Of(of).Via(r.client), agent.CreateRequest{Actors: &spec, Wait: true})
		host.client = r.client
		r.load = append(r.load, host.ticks(actor.RefOf[*ticker](of.Actor("ticker")).Via(r.client)))
	}
	r.awaitProgress()
}

// awaitProgress waits until each proc has answered some more calls.
func (r *realm) awaitProgress() {
	r.Helper()
	for _, k := range r.load {
		want := k.answered.Load() + 20
		require.Eventually(r, func() bool { return k.answered.Load() >= want }, patience, time.Millisecond,
			"messages flow")
	}
}

// judge requires that the fault cost the world nothing: the same processes, no other one, each
// count once, and none forgotten.
func (r *realm) judge(f *figures) {
	r.Helper()
	r.live(loaded)
	r.awaitProgress()
	require.Equal(r, r.pids, r.processesOf(r.mesh, r.hosts...))
	for _, m := range r.hosts {
		n := len(m.processes()) - 1 - procsPerHost
		f.count("spawned twice", max(0, n))
		f.count("forgotten", max(0, -n))
		require.Zero(r, n, "want hostd and its procs")
	}
	id, err := subjects.ParseMeshID(r.mesh)
	require.NoError(r, err)
	for rank, k := range r.load {
		f.count("indeterminate", int(k.unknown.Load()))
		k.stop() // nobody knows of the call that this ends
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		n, err := tick.Call(ctx, actor.RefOf[*ticker](
			subjects.ProcID{Mesh: id, Rank: uint32(rank)}.Actor("ticker")).Via(r.client), 0)
		cancel()
		require.NoError(r, err)
		require.GreaterOrEqual(r, n, k.answered.Load(), "each answered call is counted")
		require.LessOrEqual(r, n, k.answered.Load()+k.unknown.Load()+1, "nothing is counted twice")
		f.count("calls", int(k.answered.Load()))
	}
}

// shutdown ends everything in order, and requires that nothing is left.
func (r *realm) shutdown() {
	r.Helper()
	all := slices.Concat(r.hosts, r.systems)
	for _, m := range all {
		require.NoError(r, m.hostd.Process.Signal(syscall.SIGTERM))
	}
	for _, m := range all {
		select {
		case <-m.over:
		case <-time.After(patience):
			require.FailNow(r, "hostd does not end", m.output())
		}
		require.Zero(r, m.hostd.ProcessState.ExitCode(), "%s", m.output())
		m.requireEmpty()
	}
}

// F7. The test kills the controller during the declaration of a world with a host, and with another
// world under load.
func TestF07_killedControllerAffectsNoWorld(t *testing.T) {
	t.Parallel()
	program := buildHostd(t, "")
	try(t, fault{"F7 worlds", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		r := newRealm(t, program)
		guest := r.startHostd("c", "--world", "begun", "--host-rank", "0")
		r.hosts = append(r.hosts, guest)
		leader := r.leader()
		begun := make(chan system.UpsertResponse, 1)
		go func() { begun <- r.declare("begun", tickers(t, procsPerHost)) }()
		time.Sleep(time.Duration(seed*7919%60) * time.Millisecond) // wherever in that
		killed, before := time.Now(), r.epoch
		leader.kill()
		r.epoch = before + 1
		r.live(loaded)
		f.time("failover", time.Since(killed))
		w := <-begun
		r.live("begun")
		f.time("what was begun is done", time.Since(killed))
		require.Len(t, r.processesOf(w.Mesh, guest), procsPerHost)
		r.judge(f)
		leader.start()
		r.shutdown()
	})
}

// F7. The controller is stopped for longer than its lease, and goes on when another one acts.
func TestF07_suspendedControllerActsNoMore(t *testing.T) {
	t.Parallel()
	program := buildHostd(t, "")
	try(t, fault{"F7 worlds, stopped", 0, often}, func(t *testing.T, _ uint64, f *figures) {
		r := newRealm(t, program)
		leader := r.leader()
		stopped := time.Now()
		require.NoError(t, leader.hostd.Process.Signal(syscall.SIGSTOP))
		r.epoch++
		r.live(loaded)
		f.time("failover", time.Since(stopped))
		require.NoError(t, leader.hostd.Process.Signal(syscall.SIGCONT))
		r.onlyOneActs(f)
		require.NotEqual(t, leader, r.leader())
		r.judge(f)
		r.shutdown()
	})
}

// onlyOneActs collects for a while the answering controllers: always one of the latest term, once
// the former one has noticed.
func (r *realm) onlyOneActs(f *figures) {
	r.Helper()
	require.Eventually(r, func() bool { now, ok := r.snapshot(); return ok && now.Epoch == r.epoch }, patience,
		5*time.Millisecond)
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if now, ok := r.snapshot(); ok && now.Epoch != r.epoch {
			f.count("answers of an earlier term", 1)
		}
	}
	f.count("answers of an earlier term", 0)
	require.Zero(r, f.counts["answers of an earlier term"])
}

// F11. The server restarts, gracefully or not, and finds its store.
func TestF11_serverRestartAffectsNoWorld(t *testing.T) {
	t.Parallel()
	program := buildHostd(t, "")
	try(t, fault{"F11 worlds", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		r := newRealm(t, program)
		if seed%2 == 0 {
			r.server.end(t)
		} else {
			r.server.kill()
		}
		r.startBus()
		back := time.Now()
		r.live(loaded)
		f.time("live", time.Since(back))
		r.awaitProgress()
		f.time("messages flow", time.Since(back))
		r.judge(f)
		r.shutdown()
	})
}

// F11. The controller and a host of the world are behind a black hole, for longer than leases and
// presence last.
func TestF11_partitionAffectsNoWorld(t *testing.T) {
	t.Parallel()
	program := buildHostd(t, "")
	try(t, fault{"F11 worlds, partition", 0, seldom}, func(t *testing.T, _ uint64, f *figures) {
		r := newRealm(t, program)
		leader, host := r.leader(), r.hosts[1]
		began, before := time.Now(), r.epoch
		r.holes[leader].Stall()
		r.holes[host].Stall()
		require.Eventually(t, func() bool { now, ok := r.snapshot(); return ok && now.Epoch > before }, patience,
			5*time.Millisecond)
		f.time("failover", time.Since(began))
		require.Eventually(t, func() bool {
			now, ok := r.snapshot()
			return ok && now.Epoch > before && len(now.Worlds) == 1 && len(now.Worlds[0].Hosts) == 2 &&
				now.Worlds[0].Hosts[1].Lost != ""
		}, patience, 5*time.Millisecond)
		f.time("host known to be dead", time.Since(began))
		over := time.Now()
		r.holes[leader].Resume()
		r.holes[host].Resume()
		r.epoch = before + 1
		r.live(loaded)
		f.time("live again", time.Since(over))
		r.onlyOneActs(f)
		r.judge(f)
		r.shutdown()
	})
}

// Procs without a SIGTERM handler are killed, and the report names them. It comes at the timeout of
// the stop.
func TestWorlds_stopReportsKilledRanks(t *testing.T) {
	t.Parallel()
	m := newMachine(t, buildHostd(t, ""), "--data", t.TempDir(), "--world", "stubborn", "--host-rank", "0")
	m.start()
	r := &realm{T: t, client: m.connect()}
	w := r.declare("stubborn", system.Spec{
		Shape: shape.Of("x", 2), PerHost: 2,
		Command: agent.Command{Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; while :; do sleep 0.1; done"}},
	})
	require.Eventually(t, func() bool {
		pids := r.processesOf(w.Mesh, m)
		return len(pids) == 2 && ignoresTERM(pids[0]) && ignoresTERM(pids[1])
	}, patience, 5*time.Millisecond)
	port := actor.OpenPort[system.StopReport](r.client)
	defer port.Close()
	to := port.Ref()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ctl, err := system.Find(ctx, r.client)
	require.NoError(t, err)
	accepted, err := system.Stop.Call(ctx, ctl,
		system.StopRequest{Worlds: []string{"stubborn"}, Timeout: time.Second, Report: &to})
	require.NoError(t, err)
	require.Equal(t, []string{"stubborn"}, accepted.Worlds)
	report, err := port.Recv(ctx)
	require.NoError(t, err)
	require.Len(t, report.Worlds, 1)
	require.Equal(t, 2, report.Worlds[0].Aborted)
	require.Len(t, report.Worlds[0].Killed, 2)
	for rank, text := range report.Worlds[0].Killed {
		want := fmt.Sprintf("rank %d: stopped: did not stop in time: killed by signal 9 (killed)", rank)
		require.Equal(t, want, text)
	}
	require.Eventually(t, func() bool { return len(r.processesOf(w.Mesh, m)) == 0 }, patience,
		5*time.Millisecond)
	m.shutdown()
}
