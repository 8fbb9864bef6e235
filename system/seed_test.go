package system_test

// Monarch's tests of its system actor, and the matching ones here. Scripts are those
// of testdata, in virtual time; TestWorlds_… and TestSeed_… have a server and hosts that run their
// procs themselves, TestHostd_… (cmd/hostd), TestF07_…, TestF11_… and TestWorlds_stopReports…
// (integration/faults) real hostds and processes.
//
//	system_actor.rs
//	test_supervision_state               supervision_state, a-s9; TestSeed_supervisionState
// test_host_join_before_world host_join_before_world; TestSeed_hostsJoin;
// TestHostd_isAHostOfItsWorldUntilItEnds
//	test_host_join_after_world           host_join_after_world; TestSeed_hostsJoin; TestWorlds_hostsRunShares…
//	test_snapshot_filter                 snapshot_filter, a-s8; TestSeed_snapshotFilter
//	test_undeliverable_message_return    undeliverable_message_return, eviction; TestWorlds_unreachableProc…,
//	                                     TestWorlds_deadProcEvictsItsWorld
//	test_stop_fast                       stop_fast; TestWorlds_stopIsAnsweredTwice
//	test_update_sim_address              update_sim_address, generations; TestWorlds_hostWithALostRank…,
//	                                     TestHostd_killedWorldHostIsReplacedAtItsRank
//
//	system.rs
//	test_join                            rejoin, modes; TestSeed_bootstrapRetry
// test_system_snapshot system_snapshot; TestWorlds_hostsRunShares…; TestShare_matchesANaiveCount
//	test_system_shutdown                 system_shutdown; TestSeed_systemShutdown
//	test_single_world_shutdown           single_world_shutdown; TestSeed_singleWorldShutdown
// test_channel_dial_count none: nobody dials anybody, a process has two connections to its server
// (package bus)
//
//	proc_actor.rs, as far as worlds have a part in it
// test_bootstrap TestHostd_isAHostOfItsWorldUntilItEnds: what a proc finds in its environment
//	test_bootstrap_retry                 TestSeed_bootstrapRetry; TestHostd_runsNoSystemControllerWhenDisabled
//	test_stop                            single_world_shutdown; TestSeed_singleWorldShutdown
//	test_stop_timeout                    a-s7; TestWorlds_stopReportsKilledRanks
//	test_supervision_message_handling    supervision_state, modes; TestSeed_supervisionState
//
// The others of proc_actor.rs are about procs and delivery, whoever owns them: packages agent/proc,
// actor and link.

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// The whole service, in virtual time: a query evaluates silence and names only unhealthy procs.
func TestSeed_supervisionState_WORLD9(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		require.NoError(t, r.keys.LoadEnv(
			func(key string) string { return map[string]string{"CASTNET_WORLD_PROC_TIMEOUT": "1s"}[key] }))
		r.serve(t, "s")
		ctl := r.system(t)
		failing := func(world string) []uint32 {
			sick, err := system.GetHealth.Call(testkit.Soon(t), ctl, world)
			require.NoError(t, err)
			if sick == nil {
				return nil
			}
			ranks := []uint32{}
			for _, p := range sick.Unhealthy {
				ranks = append(ranks, p.ID.Rank)
			}
			return ranks
		}
		mesh, err := subjects.ParseMeshID(r.declare(t, spec("world", shape.Of("x", 2), 1)).Mesh)
		require.NoError(t, err)
		for rank := range uint32(2) {
			_, err := system.Join.Call(testkit.Soon(t), ctl,
				system.JoinRequest{World: "world", Proc: &system.ProcJoin{ID: subjects.ProcID{Mesh: mesh, Rank: rank}}})
			require.NoError(t, err)
		}
		require.Nil(t, failing("nowhere"), "a missing world has none")
		require.Empty(t, failing("world"))
		one := system.HeartbeatRequest{Proc: subjects.ProcID{Mesh: mesh, Rank: 1}}
		time.Sleep(2 * time.Second)
		_, err = system.Heartbeat.Call(testkit.Soon(t), ctl, one)
		require.NoError(t, err)
		require.Equal(t, []uint32{0}, failing("world"))
		one.Failed = []string{"failed-actor"}
		_, err = system.Heartbeat.Call(testkit.Soon(t), ctl, one)
		require.NoError(t, err)
		require.Equal(t, []uint32{0, 1}, failing("world"))
	})
}

// Hosts run the same ranks whether they join before their world or after it.
func TestSeed_hostsJoin_WORLD3_WORLD1(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"hosts", "world"} {
		t.Run(first+" first", func(t *testing.T) {
			testkit.Virtual(t, func(t *testing.T) {
				r := newRig(t, testmesh.JetStream())
				r.serve(t, "s")
				what := spec("test", shape.Of("replica", 2).With("host", 3), 3)
				var test system.UpsertResponse
				if first == "world" {
					test = r.declare(t, what)
				}
				a, b := r.host(t, "a", "test", 0), r.host(t, "b", "test", 1)
				a.joined(t)
				b.joined(t)
				if first == "hosts" {
					require.Equal(t, system.StatusAwaiting, r.snapshot(t, "test").Status)
					test = r.declare(t, what)
				}
				r.await(t, "test", "world.live")
				require.Equal(t, []string{"0.0", "1.0", "2.0"}, r.liveProcs(t, a, test.Mesh))
				require.Equal(t, []string{"3.0", "4.0", "5.0"}, r.liveProcs(t, b, test.Mesh))
			})
		})
	}
}

func TestSeed_snapshotFilter_WORLD12(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		r.serve(t, "s")
		red, blue := spec("red", shape.Of("x", 1), 1), spec("blue", shape.Of("x", 1), 1)
		red.Labels, blue.Labels = map[string]string{"colour": "red", "size": "big"},
			map[string]string{"colour": "blue"}
		mesh, err := subjects.ParseMeshID(r.declare(t, red).Mesh)
		require.NoError(t, err)
		r.declare(t, blue)
		_, err = system.Join.Call(testkit.Soon(t), r.system(t), system.JoinRequest{
			World: "red", Proc: &system.ProcJoin{ID: subjects.ProcID{Mesh: mesh}},
			Labels: map[string]string{"kind": "gpu"},
		})
		require.NoError(t, err)
		for _, tc := range []struct {
			filter system.Filter
			want   []string
			procs  int
		}{
			{system.Filter{}, []string{"blue", "red"}, 1},
			{system.Filter{Worlds: []string{"red", "green"}}, []string{"red"}, 1},
			{system.Filter{WorldLabels: map[string]string{"colour": "red"}}, []string{"red"}, 1},
			{system.Filter{WorldLabels: map[string]string{"colour": "red", "size": "small"}}, nil, 0},
			{system.Filter{Worlds: []string{"blue"}, WorldLabels: map[string]string{"colour": "red"}}, nil, 0},
			{system.Filter{ProcLabels: map[string]string{"kind": "gpu"}}, []string{"blue", "red"}, 1},
			{system.Filter{ProcLabels: map[string]string{"kind": "tpu"}}, []string{"blue", "red"}, 0},
		} {
			now, err := system.GetSnapshot.Call(testkit.Soon(t), r.system(t), tc.filter)
			require.NoError(t, err)
			require.NotEmpty(t, now.Execution)
			var names []string
			procs := 0
			for _, w := range now.Worlds {
				names = append(names, w.Name)
				procs += len(w.Procs)
			}
			require.Equal(t, tc.want, names, tc.filter)
			require.Equal(t, tc.procs, procs, tc.filter)
		}
	})
}

// twoWorlds are foo, with two hosts, and bar, with one.
func twoWorlds(t *testing.T, r *rig) (foo, bar system.UpsertResponse, hosts []*machine) {
	t.Helper()
	foo, bar = r.declare(t, spec("foo", shape.Of("x", 4), 2)), r.declare(t, spec("bar", shape.Of("x", 1), 1))
	hosts = []*machine{r.host(t, "a", "foo", 0), r.host(t, "b", "foo", 1), r.host(t, "c", "bar", 0)}
	for _, name := range []string{"foo", "bar"} {
		require.Eventually(t, func() bool { return r.snapshot(t, name).Status == system.StatusLive },
			testkit.Patience, 10*time.Millisecond)
	}
	return foo, bar, hosts
}

// stop requests the end of worlds, and waits for the report.
func (r *rig) stop(t *testing.T, of ...string) system.StopReport {
	t.Helper()
	port := actor.OpenPort[system.StopReport](r.client)
	defer port.Close()
	to := port.Ref()
	_, err := system.Stop.Call(testkit.Soon(t), r.system(t),
		system.StopRequest{Worlds: of, All: len(of) == 0, Reason: "enough", Report: &to})
	require.NoError(t, err)
	report, err := port.Recv(testkit.Soon(t))
	require.NoError(t, err)
	return report
}

// The worlds, their procs and the system controller stop. Other programs go on.
func TestSeed_systemShutdown_WORLD8(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		s, _ := r.serve(t, "s")
		foo, bar, hosts := twoWorlds(t, r)
		require.Equal(t, system.StopReport{Worlds: []system.WorldStopped{{World: "bar", Stopped: 1},
			{World: "foo", Stopped: 4}}}, r.stop(t))
		<-s.Done()
		for _, h := range hosts {
			require.Empty(t, slices.Concat(r.liveProcs(t, h, foo.Mesh), r.liveProcs(t, h, bar.Mesh)))
		}
		_, err := system.Find(testkit.Soon(t), r.client)
		require.ErrorIs(t, err, system.ErrNoController)
		require.NoError(t, r.client.Bus().Err())
	})
}

// One world ends, with all its procs. The other one notices nothing, and the name is free.
func TestSeed_singleWorldShutdown_WORLD8(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		r.serve(t, "s")
		foo, bar, hosts := twoWorlds(t, r)
		require.Equal(t, system.StopReport{Worlds: []system.WorldStopped{{World: "foo", Stopped: 4}}},
			r.stop(t, "foo"))
		require.Empty(t, slices.Concat(r.liveProcs(t, hosts[0], foo.Mesh), r.liveProcs(t, hosts[1], foo.Mesh)))
		require.Equal(t, system.StatusLive, r.snapshot(t, "bar").Status)
		require.Equal(t, []string{"0.0"}, r.liveProcs(t, hosts[2], bar.Mesh))
		again := r.declare(t, spec("foo", shape.Of("y", 2), 1))
		require.NotEqual(t, foo.Mesh, again.Mesh, "a new world of the name has a new mesh")
		require.Eventually(t, func() bool { return r.snapshot(t, "foo").Status == system.StatusLive },
			testkit.Patience, 10*time.Millisecond)
		require.Equal(t, []string{"0.0"}, r.liveProcs(t, hosts[0], again.Mesh), "its hosts have joined again")
	})
}

// A host that joins before the first system controller keeps trying.
func TestSeed_bootstrapRetry_WORLD3(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		a := r.host(t, "a", "w", 0)
		require.Equal(t, system.ErrNoController.Error(), <-a.said)
		r.serve(t, "s")
		a.joined(t)
		w := r.declare(t, spec("w", shape.Of("x", 1), 1))
		r.await(t, "w", "world.live")
		require.Equal(t, []string{"0.0"}, r.liveProcs(t, a, w.Mesh))
	})
}
