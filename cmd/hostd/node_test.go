package main

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// The built-in counter, as any program would declare it.
var (
	counter = actor.NewType[any, int64]("counter")
	add     = actor.NewEndpoint[any, int64, int64]("add")
)

// connect joins as an operator, with the address of the bus or without.
func (s site) connect(t *testing.T, o bus.Options) *mesh.Net {
	t.Helper()
	if o.URL == "" {
		o = bus.FromEnv(s.getenv)
	}
	o.ConnectTimeout = testkit.Patience
	conn, err := mesh.Connect(testkit.Soon(t), mesh.Options{
		Bus: &o, Principal: mesh.UserPrincipal(subjects.Operator),
		OnFailure: func(actor.Event) {}, // tests end procs on purpose
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // the bus may be gone: then there is nothing to stop
	})
	return conn
}

// spawn starts a mesh of built-in counters at 40, two on the only host, and returns the pids.
func spawn(t *testing.T, conn *mesh.Net) (mesh.ActorMesh[any], []int) {
	t.Helper()
	return spawnOn(t, conn, 1)
}

// spawnOn is spawn on a number of hosts.
func spawnOn(t *testing.T, conn *mesh.Net, n int) (mesh.ActorMesh[any], []int) {
	t.Helper()
	hosts, err := conn.AwaitHosts(testkit.Soon(t), n)
	require.NoError(t, err)
	procs, err := hosts.SpawnProcs(testkit.Soon(t), mesh.SpawnSpec{
		Name: "m", PerHost: shape.Of("gpu", 2), Command: mesh.Command{Path: agent.Builtin},
	})
	require.NoError(t, err)
	counters, err := mesh.Spawn(testkit.Soon(t), procs, counter, "counters", int64(40))
	require.NoError(t, err)
	all, err := conn.Meshes(testkit.Soon(t))
	require.NoError(t, err)
	require.Len(t, all, 1)
	var pids []int
	for _, s := range all[0].States {
		pids = append(pids, s.Proc.PID)
	}
	return counters, pids
}

// alive reports whether a process still runs; a zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || !strings.HasPrefix(state, "Z")
}

func requireGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !alive(pid) }, testkit.Patience, 10*time.Millisecond,
			"process %d is left", pid)
	}
}

func TestHostd_withoutFlagsRunsAWholeSystem(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t)
	require.Equal(t, d.ready.Bus, s.readLocal(t).URL)
	require.Equal(t, s.localFile(), d.ready.LocalFile)
	require.Equal(t, "castnet hosts", d.ready.Connect)
	require.DirExists(t, d.ready.RunDir)
	_, err := bus.Open(testkit.Soon(t), bus.Options{URL: d.ready.Bus})
	require.ErrorContains(t, err, string(bus.WrongCredentials), "nobody comes in without the token")

	counters, pids := spawn(t, s.connect(t, bus.Options{}))
	n, err := add.Call(testkit.Soon(t), counters.At("gpu", 1), 2)
	require.NoError(t, err)
	require.EqualValues(t, 42, n)
	all, err := cast.Gather(testkit.Soon(t), counters, add, 0)
	require.NoError(t, err)
	require.Equal(t, []int64{40, 42}, all.Values())

	d.Send(t, syscall.SIGTERM) // with procs alive
	require.Zero(t, d.Exit(t), d.Err.String())
	require.Contains(t, d.Err.String(), `"message":"drained"`)
	requireGone(t, pids)
	s.requireClean(t)
}

func TestHostd_printsAnIntroductionOnATerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t, "NATS_CONTEXT=", "NATS_URL=")
	d := s.spawn(t, "--log-format", "console", "--label", "me", "--namespace", "lab")
	require.Eventually(t, func() bool { return strings.Contains(d.Err.String(), "hostd is ready.") },
		testkit.Patience, time.Millisecond)
	l := s.readLocal(t)
	for _, want := range []string{
		"  host   me-", "  bus    " + l.URL + ", its own; the token is in " + s.localFile() + ", namespace lab\n",
		"  runs   hostd's built-in actors, and any program of this user\n",
		"  try    castnet --namespace lab hosts\n",
		"sub 'castnet.v1.lab.ev.>'\n",
	} {
		require.Contains(t, d.Err.String(), want)
	}
	require.NotContains(t, d.Err.String(), l.Token)
	d.Stop(t)
}

func TestHostd_secondSignalEndsItAndItsProcsAtOnce_HOSTD4(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t)
	_, pids := spawn(t, s.connect(t, bus.Options{}))
	proctest.Suspend(t, pids[0]) // it will not hear SIGTERM
	d.Send(t, syscall.SIGINT)
	d.await(t, "asked to stop (interrupt): draining")
	require.Eventually(t, func() bool {
		_, err := os.Stat(s.localFile())
		return errors.Is(err, fs.ErrNotExist)
	}, testkit.Patience, time.Millisecond, "the file is the first to go")
	d.Send(t, syscall.SIGTERM)
	require.Equal(t, 1, d.Exit(t))
	requireGone(t, pids)
}

func TestHostd_killEndsItsProcs(t *testing.T) { // HOST-6
	t.Parallel()
	s := newSite(t)
	d := s.start(t)
	_, pids := spawn(t, s.connect(t, bus.Options{}))
	left, trees := d.leaves(t, s)
	d.Send(t, syscall.SIGKILL)
	require.Equal(t, -1, d.Exit(t))
	requireGone(t, pids)

	next := s.start(t) // what a dead one left behind is in nobody's way
	require.Equal(t, next.ready.Bus, s.readLocal(t).URL)
	if trees == "cgroup" { // the hostd of another test may be the one that kills it
		requireGone(t, []int{left})
	} else { // nobody knows whose it was
		_ = syscall.Kill(left, syscall.SIGKILL)
	}
	next.Stop(t)
}

// leaves makes a proc start a process in a session of its own. It returns the process, and the
// host's way to end such ones.
func (d *daemon) leaves(t *testing.T, s site) (pid int, trees string) {
	t.Helper()
	m := keptMesh(t, d)
	m.Extent, m.PerHost, m.Keep = shape.Of("gpu", 1), 1, false
	file := filepath.Join(t.TempDir(), "pid")
	m.Command = agent.Command{Path: "/bin/sh",
		Args: []string{"-c",
			`setsid sh -c 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 600' "$0" & wait`, file}}
	host := agent.Of(m.Hosts[0].Proc()).Via(s.asker(t))
	_, err := agent.Create.Call(testkit.Soon(t), host, agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	}, testkit.Patience, 10*time.Millisecond)
	info, err := agent.Info.Call(testkit.Soon(t), host, actor.None{})
	require.NoError(t, err)
	return pid, info.TreeControl
}

func TestHostd_labelBelongsToOneLiveHost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.start(t, "--label", "one")
	code, why := s.requireFailedStart(t, "--nats", first.ready.Bus, "--label", "one") // the token is found
	require.Equal(t, 1, code)
	require.Contains(t, why, `host label "one" is taken by `+first.ready.Host)

	second := s.start(t, "--nats", first.ready.Bus, "--label", "two")
	require.Equal(t, first.ready.Bus, second.ready.Bus)
	require.Empty(t, second.ready.LocalFile)
	hosts, err := s.connect(t, bus.Options{}).AwaitHosts(testkit.Soon(t), 2)
	require.NoError(t, err)
	require.Equal(t, "host=2", hosts.Extent().String())
	second.Stop(t)
	require.Equal(t, first.ready.Bus, s.readLocal(t).URL, "the file is the first one's")
	first.Stop(t)
	s.requireClean(t)
}

func TestHostd_secondInstanceOfAUserNamesTheFirst_HOSTD2(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.start(t)
	code, why := s.requireFailedStart(t)
	require.Equal(t, 1, code)
	require.Contains(t, why, "a hostd of this user is running (pid "+strconv.Itoa(first.PID())+", "+
		first.ready.Bus+")")

	_, why = s.requireFailedStart(t, "--listen", "127.0.0.1:0") // its token would be known to nobody
	require.Contains(t, why, "start a separate one with --listen and NATS_TOKEN")
	apart := s.start(t, "--listen", "127.0.0.1:0", "--token", "t")
	require.Empty(t, apart.ready.LocalFile)
	require.Equal(t, "castnet --server "+apart.ready.Bus+" hosts", apart.ready.Connect)
	s.connect(t, bus.Options{URL: apart.ready.Bus, Token: "t"})
	apart.Stop(t)
	require.Equal(t, first.ready.Bus, s.readLocal(t).URL)
	first.Stop(t)
	s.requireClean(t)
}

func TestHostd_readsTheServerConfigurationFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, "NATS_PASSWORD=p")
	conf := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(conf,
		[]byte(`host: 127.0.0.1, authorization { users = [{ user: u, password: p }] }`), 0o600))
	data := t.TempDir()
	d := s.start(t, "--nats-config", conf, "--user", "u", "--data", data)
	require.Contains(t, d.ready.Allow, "--allow PATH for more", "others than the user may come in")
	require.DirExists(t, filepath.Join(data, "jetstream"))
	counters, _ := spawn(t, s.connect(t, bus.Options{URL: d.ready.Bus, User: "u", Password: "p"}))
	sum, err := cast.Reduce(testkit.Soon(t), counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 82, sum)
	d.Stop(t)
	s.requireClean(t)
}

func TestHostd_permanentlyLostBusIsAnError_HOSTD5(t *testing.T) {
	t.Parallel()
	address := bustest.NewAddress(t)
	serve := func(token string) *embed.Server {
		srv, err := embed.Start(testkit.Soon(t), embed.Options{Token: token})
		require.NoError(t, err)
		t.Cleanup(srv.Shutdown)
		address.Serve(srv)
		return srv
	}
	srv := serve("old")
	s := newSite(t, "NATS_TOKEN=old")
	d := s.start(t, "--nats", address.URL())
	address.Stop(srv)
	serve("new") // does not know hostd any more
	require.Equal(t, 6, d.Exit(t))
	require.Contains(t, d.Err.String(), "hostd: the bus is lost for good")
	s.requireClean(t)
}

func TestHostd_survivesAClosedLogPipe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "--listen", "127.0.0.1:0")
	cmd.Env, cmd.Stderr = s.env(), w
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.NoError(t, w.Close())
	_, err = bufio.NewReader(r).ReadString('\n') // its first line: it is starting
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Eventually(t, func() bool {
		_, err := os.Stat(s.localFile())
		return err == nil
	}, testkit.Patience, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "a drain needs no reader of its output")
}
