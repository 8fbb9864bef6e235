package main

import (
	"context"
	"errors"
	"os"
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
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// declare makes a world of built-in actors.
func declare(t *testing.T, p *actor.Proc, name string, procs, perHost int) system.UpsertResponse {
	t.Helper()
	var w system.UpsertResponse
	require.Eventually(t, func() bool {
		ctl, err := system.Find(t.Context(), p)
		if err != nil {
			return false // its term begins when hostd is ready, and not before
		}
		w, err = system.Upsert.Call(testkit.Soon(t), ctl, system.UpsertRequest{Spec: system.Spec{
			Name: name, Shape: shape.Of("x", procs), PerHost: perHost, Command: agent.Command{Path: agent.Builtin},
		}})
		for _, ended := range []error{actor.ErrNoActor, actor.ErrStopped, actor.ErrNoProc, actor.ErrProcDead} {
			if errors.Is(err, ended) {
				return false // the next term follows
			}
		}
		require.NoError(t, err)
		return true
	}, testkit.Patience, 20*time.Millisecond)
	return w
}

// awaitWorld waits until any controller reports a status of a world.
func awaitWorld(t *testing.T, p *actor.Proc, name string, status system.Status) (w system.WorldState,
	s system.Snapshot) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ctl, err := system.Find(ctx, p)
		if err != nil {
			return false
		}
		if s, err = system.GetSnapshot.Call(ctx, ctl, system.Filter{Worlds: []string{name}}); err != nil ||
			len(s.Worlds) != 1 {
			return false
		}
		w = s.Worlds[0]
		return w.Status == status
	}, testkit.Patience, 50*time.Millisecond, "world %s is not %s", name, status)
	return w, s
}

// pidsOf are the processes of a world.
func pidsOf(t *testing.T, p *actor.Proc, w system.WorldState) (pids []int) {
	t.Helper()
	for _, h := range w.Hosts {
		states, err := agent.Get.Call(testkit.Soon(t), agent.Of(h.ID.Proc()).Via(p), agent.GetRequest{ID: w.Mesh})
		require.NoError(t, err)
		for _, s := range states {
			require.Equal(t, agent.Running, s.Status.Phase)
			pids = append(pids, s.Proc.PID)
		}
	}
	return pids
}

func TestHostd_isAHostOfItsWorldUntilItEnds_HOSTD10(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--data", filepath.Join(s.tmp, "js"), "--world", "w", "--host-rank", "1", "--label", "a")
	d.Err.Await(t, "joined the world")
	p := s.asker(t)
	w, now := awaitWorld(t, p, "w", system.StatusAwaiting)
	require.True(t, now.Durable)
	require.Equal(t, d.ready.Host, w.Hosts[0].ID.String())
	declare(t, p, "w", 5, 3)
	require.Eventually(t, func() bool {
		w, _ = awaitWorld(t, p, "w", system.StatusStarting)
		return len(w.Procs) == 2
	}, testkit.Patience, 20*time.Millisecond)
	require.Equal(t, "2 of 5 procs have started", w.Reason)
	pids := pidsOf(t, p, w)
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pids[0]), "environ"))
	require.NoError(t, err)
	for _, want := range []string{"CASTNET_WORLD=w", "CASTNET_RANK=3", "CASTNET_LOCAL_RANK=0",
		"CASTNET_WORLD_SIZE=5", "CASTNET_PROC_ID=" + w.Mesh + "/3.0"} {
		require.Contains(t, string(env), want+"\x00")
	}
	other := s.start(t, "--nats", s.readLocal(t).URL, "--token", s.readLocal(t).Token, "--label", "b", "--world",
		"w", "--host-rank", "0")
	awaitWorld(t, p, "w", system.StatusLive)
	other.Stop(t)
	w, _ = awaitWorld(t, p, "w", system.StatusUnhealthy)
	require.Equal(t, "only 2 of 5 procs run", w.Reason, "a departure harms no other host")
	d.Stop(t)
	requireGone(t, pids)
	require.NoError(t, os.RemoveAll(filepath.Join(s.tmp, "js")))
	s.requireClean(t)
}

func TestHostd_runsNoSystemControllerWhenDisabled_HOSTD10(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--system=false", "--world", "w", "--host-rank", "0")
	_, err := system.Find(testkit.Soon(t), s.asker(t))
	require.ErrorIs(t, err, system.ErrNoController)
	d.Err.Await(t, "cannot join the world")
	d.Stop(t)
	for _, wrong := range [][]string{
		{"--world", "w"}, {"--host-rank", "1"}, {"--world", "w", "--host-rank", "-1"},
		{"--world", "w.x", "--host-rank", "1"},
	} {
		code, why := s.requireFailedStart(t, wrong...)
		require.Equal(t, 2, code)
		require.Contains(t, why, "--world")
	}
	s.requireClean(t)
}

// Killed controllers and a restarted server cost a world nothing: no proc ends, none is started
// (F7, F11).
func TestHostd_worldsSurviveControllersAndTheServer_WORLD2(t *testing.T) {
	t.Parallel()
	s := newSite(t, "NATS_TOKEN=t")
	store := t.TempDir()
	address := bustest.NewAddress(t)
	serve := func() *embed.Server {
		srv, err := embed.Start(testkit.Soon(t), embed.Options{Token: "t", JetStream: true, StoreDir: store})
		require.NoError(t, err)
		address.Serve(srv)
		return srv
	}
	srv := serve()
	defer func() { srv.Shutdown() }()
	at := address.URL()
	systems := map[string]*daemon{}
	for _, label := range []string{"s1", "s2"} {
		systems[label] = s.start(t, "--nats", at, "--system", "--label", label)
	}
	for i, label := range []string{"a", "b"} {
		s.start(t, "--nats", at, "--label", label, "--world", "w", "--host-rank", strconv.Itoa(i)).
			Err.Await(t, "joined the world")
	}
	s.vars = append(s.vars, "NATS_URL="+at)
	p := s.asker(t)
	declare(t, p, "w", 4, 2)
	w, first := awaitWorld(t, p, "w", system.StatusLive)
	require.True(t, first.Durable)
	pids := pidsOf(t, p, w)
	require.Len(t, pids, 4)

	leader := systems["s1"]
	if strings.Contains(systems["s2"].Err.String(), "became the system controller") {
		leader = systems["s2"]
	}
	killed := time.Now()
	leader.Send(t, syscall.SIGKILL)
	require.Eventually(t, func() bool {
		_, now := awaitWorld(t, p, "w", system.StatusLive)
		return now.Epoch > first.Epoch
	}, testkit.Patience, 20*time.Millisecond)
	t.Logf("followed within %s", time.Since(killed))
	require.Equal(t, pids, pidsOf(t, p, w))

	address.Stop(srv)
	srv = serve()
	require.Eventually(t, func() bool {
		_, now := awaitWorld(t, p, "w", system.StatusLive)
		return now.Epoch >= first.Epoch
	}, testkit.Patience, 20*time.Millisecond)
	require.Equal(t, pids, pidsOf(t, p, w))
}

// The ranks of a killed host run on the next host with its rank, as other procs.
func TestHostd_killedWorldHostIsReplacedAtItsRank_WORLD2(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.start(t, "--data", t.TempDir(), "--label", "s")
	local := s.readLocal(t)
	member := func(label string) *daemon {
		return s.start(t, "--nats", local.URL, "--token", local.Token, "--label", label, "--world", "w",
			"--host-rank", "0")
	}
	p := s.asker(t)
	declare(t, p, "w", 1, 1)
	first := member("a")
	w, _ := awaitWorld(t, p, "w", system.StatusLive)
	old := w.Procs[0].ID
	killed := time.Now()
	first.Send(t, syscall.SIGKILL)
	w, _ = awaitWorld(t, p, "w", system.StatusUnhealthy)
	t.Logf("known after %s: %s", time.Since(killed), w.Reason)
	member("b")
	w, _ = awaitWorld(t, p, "w", system.StatusLive)
	require.Equal(t, old.Mesh, w.Procs[0].ID.Mesh)
	require.Equal(t, old.Gen+1, w.Procs[0].ID.Gen)
	_, err := agent.Ping.Call(testkit.Soon(t), agent.Of(old).Via(p), actor.None{})
	require.ErrorIs(t, err, actor.ErrNoProc, "what is sent to the old one comes back")
	_, err = agent.Ping.Call(testkit.Soon(t), agent.Of(w.Procs[0].ID).Via(p), actor.None{})
	require.NoError(t, err)
}

// removeBucket removes the stream of the worlds.
func removeBucket(t *testing.T, p *actor.Proc) {
	t.Helper()
	m, err := p.Bus().Control().Request(testkit.Soon(t),
		bus.Msg{Subject: "$JS.API.STREAM.DELETE.KV_castnet-castnet-default"})
	require.NoError(t, err)
	require.Contains(t, string(m.Data), `"success":true`)
}

// The bucket is lost while its controller runs, with the controller, or with a standby: the
// processes stay.
func TestHostd_worldsSurviveTheLossOfTheirBucket_WORLD14(t *testing.T) {
	t.Parallel()
	for name, loses := range map[string]func(t *testing.T, startSystem func(label string) *daemon,
		controller *daemon, remove func()){
		"its controller runs": func(t *testing.T, _ func(string) *daemon, controller *daemon, remove func()) {
			remove()
			controller.Err.Await(t, "recreated it from memory")
		},
		"its controller dies": func(t *testing.T, startSystem func(string) *daemon, controller *daemon,
			remove func()) {
			remove()
			controller.Send(t, syscall.SIGKILL)
			controller.Exit(t)
			startSystem("s1")
		},
		"a standby follows": func(t *testing.T, startSystem func(string) *daemon, controller *daemon,
			remove func()) {
			standby := startSystem("s2")
			remove()
			controller.Send(t, syscall.SIGKILL)
			standby.Err.Await(t, "became the system controller")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "NATS_TOKEN=t")
			srv, err := embed.Start(testkit.Soon(t), embed.Options{Token: "t", JetStream: true})
			require.NoError(t, err)
			t.Cleanup(srv.Shutdown)
			startSystem := func(label string) *daemon {
				return s.start(t, "--nats", srv.URL(), "--system", "--label", label, "--gateway=false")
			}
			controller := startSystem("s1")
			for i, label := range []string{"a", "b"} {
				s.start(t, "--nats", srv.URL(), "--label", label, "--world", "w", "--host-rank", strconv.Itoa(i)).
					Err.Await(t, "joined the world")
			}
			s.vars = append(s.vars, "NATS_URL="+srv.URL())
			p := s.asker(t)
			declare(t, p, "w", 4, 2)
			w, _ := awaitWorld(t, p, "w", system.StatusLive)
			pids := pidsOf(t, p, w)
			loses(t, startSystem, controller, func() { removeBucket(t, p) })
			now, _ := awaitWorld(t, p, "w", system.StatusLive)
			require.Equal(t, w.Mesh, now.Mesh)
			require.Equal(t, pids, pidsOf(t, p, now))
			again := declare(t, p, "w", 4, 2)
			require.Equal(t, system.ChangeNone, again.Change)
		})
	}
}
