package system_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// Shape [3,4] with 8 per host gives ranks 8 to 11 to host 1, in any order of arrival.
func TestWorlds_hostsRunSharesInAnyOrderOfDeclaration_WORLD1(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		r.serve(t, "s")
		late := r.host(t, "h1", "foo", 1)
		late.joined(t)
		require.Equal(t, system.StatusAwaiting, r.snapshot(t, "foo").Status)
		foo := r.declare(t, spec("foo", shape.Of("a", 3).With("b", 4), 8))
		require.Equal(t, system.ChangeCreate, foo.Change)
		require.Equal(t, "0 of 12 procs have started", r.await(t, "foo", "world.starting").Reason)
		first, idle := r.host(t, "h0", "foo", 0), r.host(t, "h2", "foo", 2)
		r.await(t, "foo", "world.live")
		idle.joined(t)
		require.Equal(t, []string{"8.0", "9.0", "10.0", "11.0"}, r.liveProcs(t, late, foo.Mesh))
		require.Equal(t, []string{"0.0", "1.0", "2.0", "3.0", "4.0", "5.0", "6.0", "7.0"},
			r.liveProcs(t, first, foo.Mesh))
		require.Empty(t, r.liveProcs(t, idle, foo.Mesh))
		w := r.snapshot(t, "foo")
		require.Len(t, w.Hosts, 3)
		require.Len(t, w.Procs, 12)
		at, err := system.Locate.Call(testkit.Soon(t), r.system(t), "foo/9")
		require.NoError(t, err)
		require.Equal(t, late.ID().String(), at.Host)
		require.Equal(t, foo.Mesh+"/9.0", at.Proc.String())
		again := r.declare(t, spec("foo", shape.Of("a", 3).With("b", 4), 8))
		require.Equal(t, system.ChangeNone, again.Change)
	})
}

// A killed controller has a successor within 5 s; nothing is spawned twice or forgotten (F7).
func TestWorlds_standbyControllerTakesOver_WORLD2_WORLD13(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		_, kill := r.serve(t, "one")
		a, b := r.host(t, "a", "w", 0), r.host(t, "b", "w", 1)
		w := r.declare(t, spec("w", shape.Of("x", 4), 2))
		r.await(t, "w", "world.live")
		before, err := system.GetSnapshot.Call(testkit.Soon(t), r.system(t), system.Filter{})
		require.NoError(t, err)
		r.serve(t, "two")
		kill()
		start := time.Now()
		r.await(t, "w", "world.live")
		t.Logf("followed within %s", time.Since(start))
		after, err := system.GetSnapshot.Call(testkit.Soon(t), r.system(t), system.Filter{})
		require.NoError(t, err)
		require.NotEqual(t, before.Execution, after.Execution)
		require.Greater(t, after.Epoch, before.Epoch)
		require.Equal(t, []string{"0.0", "1.0"}, r.liveProcs(t, a, w.Mesh))
		require.Equal(t, []string{"2.0", "3.0"}, r.liveProcs(t, b, w.Mesh))
		require.Equal(t, system.StatusLive, r.snapshot(t, "w").Status)
	})
}

// The next host of a lost rank runs it as another incarnation.
func TestWorlds_hostWithALostRankRunsTheNextGeneration_WORLD2(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		r.serve(t, "s")
		a := r.host(t, "a", "w", 0)
		w := r.declare(t, spec("w", shape.Of("x", 1), 1))
		r.await(t, "w", "world.live")
		a.leave()
		<-a.gone
		require.Equal(t, "only 0 of 1 procs run", r.await(t, "w", "world.unhealthy").Reason)
		b := r.host(t, "b", "w", 0)
		r.await(t, "w", "world.live")
		require.Equal(t, []string{"0.1"}, r.liveProcs(t, b, w.Mesh))
		at, err := system.Locate.Call(testkit.Soon(t), r.system(t), w.Mesh+"/0.0")
		require.NoError(t, err)
		require.EqualValues(t, 1, at.Proc.Gen)
		require.Equal(t, b.ID().String(), at.Host)
	})
}

// A stop gets a reply at once, and later a report.
func TestWorlds_stopIsAnsweredTwice_WORLD8(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		s, _ := r.serve(t, "s")
		a := r.host(t, "a", "w", 0)
		w := r.declare(t, spec("w", shape.Of("x", 3), 3))
		r.await(t, "w", "world.live")
		port := actor.OpenPort[system.StopReport](r.client)
		defer port.Close()
		to := port.Ref()
		accepted, err := system.Stop.Call(testkit.Soon(t), r.system(t),
			system.StopRequest{Worlds: []string{"w", "v"}, Reason: "enough", Report: &to})
		require.NoError(t, err)
		require.Equal(t, system.StopResponse{Worlds: []string{"w"}, Skipped: map[string]string{"v": "not found"}},
			accepted)
		report, err := port.Recv(testkit.Soon(t))
		require.NoError(t, err)
		require.Equal(t, system.StopReport{Worlds: []system.WorldStopped{{World: "w", Stopped: 3}}}, report)
		require.Empty(t, r.liveProcs(t, a, w.Mesh))
		require.Equal(t, "enough", r.await(t, "w", "world.end").Reason)

		// The host joins again; without a world everything ends at once.
		_, err = system.Stop.Call(testkit.Soon(t), r.system(t), system.StopRequest{All: true, Reason: "good night"})
		require.NoError(t, err)
		<-s.Done()
	})
}

// A dead proc makes its world Unhealthy at once, and after the eviction time the world ends with
// the reason (C-1).
func TestWorlds_deadProcEvictsItsWorld_WORLD6(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		require.NoError(t, r.keys.LoadEnv(
			func(key string) string { return map[string]string{"CASTNET_WORLD_EVICTION_TIMEOUT": "3s"}[key] }))
		r.serve(t, "s")
		a := r.host(t, "a", "w", 0)
		w := r.declare(t, spec("w", shape.Of("x", 2), 2))
		r.await(t, "w", "world.live")
		id, err := subjects.ParseProcID(w.Mesh + "/1.0")
		require.NoError(t, err)
		proc := agent.Of(id).Via(r.client)
		_, err = agent.StopAll.Call(testkit.Soon(t), proc, agent.StopAllRequest{Reason: "die"})
		require.NoError(t, err)
		require.Contains(t, r.await(t, "w", "world.unhealthy").Reason, "/1.0: stopped")
		now, err := system.GetSnapshot.Call(testkit.Soon(t), r.system(t), system.Filter{})
		require.NoError(t, err)
		require.InDelta(t, 1.5, now.Worlds[0].EvictionIn.Seconds(), 1.5)
		require.NotZero(t, now.Worlds[0].EvictionIn)
		require.Contains(t, r.await(t, "w", "world.evict").Reason, "evicted: unhealthy for 3s: proc ")
		r.await(t, "w", "world.end")
		require.Empty(t, r.liveProcs(t, a, w.Mesh))
		past, err := system.Failures.Call(testkit.Soon(t), r.system(t), actor.None{})
		require.NoError(t, err)
		var steps []string
		for _, e := range past {
			steps = append(steps, e.Step)
		}
		require.Equal(t, []string{"world.unhealthy", "world.evict", "world.end"}, steps)
	})
}

// The controller that follows knows failures of earlier terms: each service listens.
func TestFailures_outliveTheOwnerOfTheMeshAndTheController_WORLD18(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		_, kill := r.serve(t, "one")
		r.system(t)
		r.serve(t, "two")
		owner := r.Connect(t)
		mesh, err := subjects.NewMeshID("gone")
		require.NoError(t, err)
		for rank := range 300 {
			owner.Proc().Emit(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: mesh.String(), Rank: rank,
				Reason: strings.Repeat("x", 100), StderrTail: []string{strings.Repeat("y", 9000)}, At: time.Now()})
		}
		id := testproc.HostID(t, "drained")
		drained, leave := testproc.Start(t, r.Server, testproc.Options{Options: actor.Options{
			ID: id.Proc(), Principal: subjects.Host.Principal("drained"), Bus: r.Open(t),
		}})
		require.NoError(t, owner.Bus().Control().Flush(testkit.Soon(t)))
		drained.Emit(actor.Event{Kind: actor.KindHost, Step: agent.StepDrain, Mesh: id.String(), Host: id.String(),
			Reason: "new disks", At: time.Now()})
		require.NoError(t, drained.Bus().Control().Flush(testkit.Soon(t)))
		leave()
		require.NoError(t, owner.Close(testkit.Soon(t)))
		kill()
		var past []actor.Event
		require.Eventually(t, func() bool {
			past, err = system.Failures.Call(testkit.Soon(t), r.system(t), actor.None{})
			return err == nil && len(past) == 256
		}, testkit.Patience, 100*time.Millisecond)
		require.Equal(t, []int{45, 299}, []int{past[0].Rank, past[254].Rank})
		require.Equal(t, "new disks", past[255].Reason)
		require.Empty(t, past[0].StderrTail, "it is too long")
	})
}

// Without JetStream one of several acts, and reports that worlds end with it.
func TestWorlds_workWithoutAStore_WORLD14(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		one, kill := r.serve(t, "one")
		require.False(t, one.Durable())
		a := r.host(t, "a", "w", 0)
		first := r.declare(t, spec("w", shape.Of("x", 1), 1))
		r.await(t, "w", "world.live")
		r.serve(t, "two")
		kill()
		require.Eventually(t, func() bool {
			s, err := system.Find(t.Context(), r.client)
			if err != nil {
				return false
			}
			now, err := system.GetSnapshot.Call(testkit.Soon(t), s, system.Filter{})
			return err == nil && len(now.Worlds) == 1 && now.Worlds[0].Status == system.StatusAwaiting
		}, testkit.Patience, 50*time.Millisecond, "the host offers itself to the next one, which knows no world")
		require.Eventually(t, func() bool { return len(r.liveProcs(t, a, first.Mesh)) == 0 }, testkit.Patience,
			50*time.Millisecond, "what nobody knows is stopped")
	})
}

// A bad message gets an answer, and the controller lives.
func TestWorlds_badMessagesAreAnswered_WORLD3(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		r.serve(t, "s")
		ctl := r.system(t)
		bad := spec("w", shape.Of("x", 1), 0)
		_, err := system.Upsert.Call(testkit.Soon(t), ctl, system.UpsertRequest{Spec: bad})
		require.ErrorContains(t, err, "0 procs per host: want 1 to 4096")
		_, err = system.Upsert.Call(testkit.Soon(t), ctl, system.UpsertRequest{Spec: spec("", shape.Unit(), 1)})
		require.ErrorContains(t, err, "mesh label")
		_, err = system.Join.Call(testkit.Soon(t), ctl, system.JoinRequest{World: "w"})
		require.ErrorContains(t, err, "want a host or a proc")
		_, err = system.Leave.Call(testkit.Soon(t), ctl, system.LeaveRequest{})
		require.NoError(t, err)
		_, err = system.Heartbeat.Call(testkit.Soon(t), ctl, system.HeartbeatRequest{Proc: r.client.ID()})
		require.NoError(t, err)
		sick, err := system.GetHealth.Call(testkit.Soon(t), ctl, "nowhere")
		require.NoError(t, err)
		require.Nil(t, sick)
		_, err = system.Locate.Call(testkit.Soon(t), ctl, "nowhere/1")
		require.ErrorContains(t, err, "nowhere/1: not found")
	})
}

// test_undeliverable_message_return by meaning: a proc sends heartbeats but gets no message. It is
// unhealthy after the first report of a dead letter from it.
func TestWorlds_unreachableProcIsUnhealthy_WORLD9(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		// they send no heartbeats
		require.NoError(t, r.keys.LoadEnv(
			func(key string) string { return map[string]string{"CASTNET_WORLD_PROC_TIMEOUT": "5m"}[key] }))
		r.serve(t, "s")
		ctl := r.system(t)
		r.declare(t, spec("world", shape.Of("x", 1), 1))
		mesh := testproc.MeshID(t, "world")
		ping, pong := subjects.ProcID{Mesh: mesh}, subjects.ProcID{Mesh: mesh, Rank: 1}
		_, err := system.Join.Call(testkit.Soon(t), ctl,
			system.JoinRequest{World: "world", Proc: &system.ProcJoin{ID: ping}})
		require.ErrorContains(t, err, "is not of this world: want a proc of mesh world-")
		w := r.snapshot(t, "world")
		ping.Mesh, err = subjects.ParseMeshID(w.Mesh)
		require.NoError(t, err)
		pong.Mesh = ping.Mesh
		for _, id := range []subjects.ProcID{ping, pong} {
			_, err = system.Join.Call(testkit.Soon(t), ctl,
				system.JoinRequest{World: "world", Proc: &system.ProcJoin{ID: id}})
			require.NoError(t, err)
		}
		r.await(t, "world", "world.live")
		sender, _ := r.member(t, ping)
		_, stop := r.member(t, pong)
		require.NoError(t, system.SuspectProc.Send(testkit.Soon(t), ctl, pong))
		pinged, err := sender.Spawn(testkit.Soon(t),
			actor.SpawnSpec{Type: pingerType.Name(), Name: "pinger", Params: pong})
		require.NoError(t, err)
		require.NoError(t, poke.Send(testkit.Soon(t), actor.RefOf[*pinger](pinged).Via(sender), true))
		testkit.Until(t, "there is no such actor", func() bool { return sender.DeadLetters() != nil })
		require.Equal(t, system.StatusLive, r.snapshot(t, "world").Status, "a false report does not harm pong")
		stop()
		require.NoError(t, poke.Send(testkit.Soon(t), actor.RefOf[*pinger](pinged).Via(sender), true))
		require.Contains(t, r.await(t, "world", "world.unhealthy").Reason, "/1.0: a message to it was returned")
		_, err = system.Heartbeat.Call(testkit.Soon(t), ctl, system.HeartbeatRequest{Proc: pong})
		require.NoError(t, err)
		sick, err := system.GetHealth.Call(testkit.Soon(t), ctl, "world")
		require.NoError(t, err)
		require.Len(t, sick.Unhealthy, 1)
		require.Equal(t, system.HealthUnreachable, sick.Unhealthy[0].Health)
	})
}

// Controllers are killed during declarations. Each accepted declaration has a world, and in the end
// each host runs exactly its shares (F7).
func TestWorlds_surviveControllerDeathsUnderLoad_WORLD2(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		hosts := []*machine{r.host(t, "a", "w", 0), r.host(t, "b", "w", 1)}
		accepted := map[string]bool{}
		for round := range 3 {
			_, kill := r.serve(t, "s")
			r.system(t)
			killed := make(chan struct{})
			go func() {
				defer close(killed)
				time.Sleep(time.Duration(round*7) * time.Millisecond) // at another instant each time
				kill()
			}()
			for n := range 20 {
				s, err := system.Find(t.Context(), r.client)
				if err != nil {
					break
				}
				name := fmt.Sprintf("load%d-%d", round, n)
				if n == 3 && round == 1 {
					name = "w"
				}
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				if _, err = system.Upsert.Call(ctx, s,
					system.UpsertRequest{Spec: spec(name, shape.Of("x", 4), 2)}); err == nil {
					accepted[name] = true
				}
				cancel()
			}
			<-killed
		}
		r.serve(t, "last")
		r.declare(t, spec("w", shape.Of("x", 4), 2)) // if it was not
		require.Eventually(t, func() bool { return r.snapshot(t, "w").Status == system.StatusLive },
			testkit.Patience, 20*time.Millisecond)
		now, err := system.GetSnapshot.Call(testkit.Soon(t), r.system(t), system.Filter{})
		require.NoError(t, err)
		for _, w := range now.Worlds {
			delete(accepted, w.Name)
		}
		require.Empty(t, accepted, "accepted, and forgotten")
		w := r.snapshot(t, "w")
		for i, h := range hosts {
			states, err := agent.Get.Call(testkit.Soon(t), agent.Of(h.ID().Proc()).Via(r.client), agent.GetRequest{})
			require.NoError(t, err)
			require.Len(t, states, 2, "a host runs its share, once, and nothing else")
			for k, s := range states {
				require.Equal(t, []any{w.Mesh, 2*i + k, 0, agent.Running}, []any{s.ID, s.Rank, s.Gen, s.Status.Phase})
			}
		}
	})
}

// The controller cannot hear during an outage of the bus.
func TestService_outageOfTheBusIsNoSilenceOfAManager_WORLD9(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		s, kill := r.serve(t, "s")
		boss := system.ProcJoin{ID: r.client.ID(), Mode: system.ModeManager}
		ask(t, r, system.Join, system.JoinRequest{World: "w", Proc: &boss})
		r.Server.Shutdown()
		time.Sleep(time.Minute)
		select {
		case <-s.Done():
			require.Fail(t, "the outage ended the system")
		default:
		}
		kill()
	})
}
