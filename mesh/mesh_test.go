package mesh_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// cluster is a cluster with helpers of the tests.
type cluster struct{ *testmesh.Cluster }

func newCluster(t *testing.T, labels ...string) *cluster {
	t.Helper()
	return &cluster{testmesh.Start(t, testmesh.Hosts(labels...))}
}

// newStored is a cluster on a server with a store.
func newStored(t *testing.T, labels ...string) *cluster {
	t.Helper()
	return &cluster{testmesh.Start(t, testmesh.JetStream(), testmesh.Hosts(labels...))}
}

// hasty is a client that declares a process gone 1 s after the server found no listener, not 5 s.
func (c *cluster) hasty(t *testing.T) *mesh.Net {
	t.Helper()
	cfg := &config.Config{}
	require.NoError(t, config.DeliveryReconnectTimeout.Set(cfg, time.Second))
	return c.Connect(t, configured(cfg))
}

// workers spawns procs and counters on all hosts.
func (c *cluster) workers(t *testing.T, perHost int, start int64) (mesh.ProcMesh, mesh.ActorMesh[*Counter]) {
	t.Helper()
	hosts := c.AllHosts(t, c.Net)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", perHost))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", start)
	require.NoError(t, err)
	return procs, counters
}

// pids are the live processes of a mesh by rank, from the reports of its hosts.
func (c *cluster) pids(t *testing.T, p mesh.ProcMesh) map[int]int {
	t.Helper()
	pids := map[int]int{}
	states, err := p.Via(c.Net).States(t.Context())
	if errors.As(err, new(*mesh.NotFoundError)) {
		return pids
	}
	require.NoError(t, err)
	for rank, s := range states.Values() {
		if s.Proc != nil && !s.Status.Phase.Terminal() {
			pids[rank] = s.Proc.PID
		}
	}
	return pids
}

func TestMesh_mainJobRunsOnTwoHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	procs, counters := c.workers(t, 4, 10)
	require.Equal(t, "host=2,gpu=4", counters.Extent().String())

	n, err := add.Call(t.Context(), counters.At("host", 1, "gpu", 3), 5)
	require.NoError(t, err)
	require.EqualValues(t, 15, n)
	sum, err := cast.Reduce(t.Context(), counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 8*11+5, sum)
	all, err := cast.Gather(t.Context(), counters.Slice("gpu", 2, 4), add, 1)
	require.NoError(t, err)
	require.Equal(t, []int64{12, 12, 12, 17}, all.Values())

	_, err = crash.Call(t.Context(), counters.At("host", 0, "gpu", 1), actor.None{})
	require.ErrorIs(t, err, actor.ErrPanic)
	_, err = cast.Gather(t.Context(), counters, add, 1)
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, "host=0,gpu=1", partial.Coverage.FailedRegion())
	require.Equal(t, 7, partial.Coverage.Answered)
	require.NoError(t, counters.Stop(t.Context()))
	require.NoError(t, procs.Stop(t.Context()))
}

func TestSupervise_ownerHearsOfAKilledProc_MESH6(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	procs, counters := c.workers(t, 2, 0)
	pid := c.pids(t, procs)[2]
	require.NotZero(t, pid)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	for e, err := range procs.Watch(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, 2, e.Rank)
		require.Equal(t, 9, e.Signal)
		require.Contains(t, e.Reason, "killed by signal 9")
		require.True(t, strings.HasPrefix(e.Host, "b-"), e.Host)
		break
	}
	sum, err := cast.Reduce(t.Context(), counters, add, 1, cast.Sum[int64]())
	require.ErrorIs(t, err, actor.ErrProcDead)
	require.ErrorContains(t, err, "[host=1,gpu=0]")
	require.EqualValues(t, 3, sum)
	_, err = add.Call(t.Context(), counters.Ref(2), 1)
	require.ErrorIs(t, err, actor.ErrProcDead, "the answer is known: nobody waits for a timeout")
	require.ErrorIs(t, cast.Send(t.Context(), counters, add, 1), actor.ErrProcDead)
	for range 300 { // who leaves makes room: more than an owner has for subscribers
		e, err := firstOf(t, counters)
		require.NoError(t, err)
		require.Equal(t, 2, e.Rank, "an actor dies with its proc")
	}
}

func firstOf(t *testing.T, m mesh.ActorMesh[*Counter]) (actor.Event, error) {
	for e, err := range m.Watch(t.Context()) {
		return e, err
	}
	return actor.Event{}, context.Cause(t.Context())
}

func TestClose_stopsMeshesOfTheProgram_MESH2(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	other := c.Connect(t)
	hosts := c.AllHosts(t, other)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	pids := c.pids(t, procs)
	require.Len(t, pids, 2)
	require.NoError(t, other.Close(t.Context()))
	require.Empty(t, c.pids(t, procs))
	for _, pid := range pids {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
}

func TestSpawn_failureNamesEachRankAndLeavesNothing_MESH3(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	hosts := c.AllHosts(t, c.Net)
	for name, s := range map[string]mesh.SpawnSpec{
		"exits at once": {Command: mesh.Command{Path: "/bin/sh",
			Args: []string{"-c", "echo no such model >&2; exit 3"}}},
		"does not exist":  {Command: mesh.Command{Path: "/does/not/exist"}},
		"is no proc":      {Command: mesh.Command{Path: "/bin/sh", Args: []string{"-c", "exit 0"}}},
		"is not absolute": {Command: mesh.Command{Path: "sh"}},
	} {
		t.Run(name, func(t *testing.T) {
			s.Name, s.PerHost = "workers", shape.Of("gpu", 2)
			var err error
			var failed *mesh.SpawnError
			testkit.Until(t, "all ranks are named", func() bool { // after the first failure the others have 2 s
				_, err = hosts.SpawnProcs(t.Context(), s)
				require.ErrorAs(t, err, &failed)
				return len(failed.Failed) > 3
			})
			require.Len(t, failed.Failed, 4)
			want := map[string]string{
				"exits at once": "exited with code 3", "does not exist": "/does/not/exist",
				"is no proc": "before it was ready", "is not absolute": "want an absolute path",
			}[name]
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "rank 3 (host=1/2,gpu=1/2) on b-")
			if name == "exits at once" {
				require.ErrorContains(t, err, "stderr: no such model")
			}
			all, err := c.Meshes(t.Context())
			require.NoError(t, err)
			for _, m := range all {
				for _, st := range m.States {
					require.True(t, st.Status.Phase.Terminal(), "%+v", st)
				}
			}
		})
	}
}

func TestSpawnActors_constructorErrorNamesItsRank_MESH3(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	hosts := c.AllHosts(t, c.Net)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 3))
	require.NoError(t, err)
	_, err = mesh.Spawn(t.Context(), procs, counter, "counters", -4)
	var failed *mesh.SpawnError
	require.ErrorAs(t, err, &failed)
	require.Len(t, failed.Failed, 1)
	require.Equal(t, 1, failed.Failed[0].Rank)
	require.ErrorContains(t, err, "cannot count from -4")

	_, err = mesh.Spawn(t.Context(), procs, actor.NewType[*Counter, int64]("abacus"), "counters", 0)
	require.ErrorContains(t, err, `actor type "abacus" is not known`)
	require.ErrorContains(t, err, "counter")
	_, err = mesh.Spawn(t.Context(), procs, counter, "two words", 0)
	require.ErrorContains(t, err, `"two words"`)
	_, err = mesh.Spawn(t.Context(), procs.Slice("gpu", 1, 3), counter, "counters", 0)
	require.NoError(t, err, "a slice has members of its own")
}

func TestStop_isIdempotent_MESH5(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, counters := c.workers(t, 2, 0)
	require.NoError(t, counters.StopWithReason(t.Context(), "new data"))
	require.NoError(t, counters.Stop(t.Context()))
	_, err := add.Call(t.Context(), counters.Ref(0), 1)
	require.ErrorIs(t, err, actor.ErrStopped)
	states, err := counters.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, agent.Status{Phase: agent.Stopped, Reason: "new data"}, states.Values()[1].Status)
	found, err := c.Connect(t).Lookup(t.Context(), "workers")
	require.NoError(t, err)
	require.NoError(t, found.StopWithReason(t.Context(), "enough"), "any client may ask the owner")
	require.Empty(t, c.pids(t, procs))
	states, err = procs.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, agent.Status{Phase: agent.Stopped, Reason: "enough"}, states.Values()[1].Status)
	require.NoError(t, procs.Stop(t.Context()))
}

func TestLookup_findsMeshesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	_, counters := c.workers(t, 2, 5)
	other := c.Connect(t)
	procs, err := other.Lookup(t.Context(), "workers")
	require.NoError(t, err)
	found, err := mesh.Find[*Counter](t.Context(), procs, "counters")
	require.NoError(t, err)
	require.Equal(t, counters.Name(), found.Name())
	sum, err := cast.Reduce(t.Context(), found, add, 0, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 10, sum)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ends := []<-chan string{eventWords(t, found.Watch(ctx)),
		eventWords(t, mesh.ActorsOn[*Counter](procs, counters.Name()).Watch(ctx))}
	_, err = crash.Call(t.Context(), found.Slice("gpu", 1, 2).Ref(0), actor.None{})
	require.Error(t, err)
	for _, w := range ends {
		require.Equal(t, "1.0 at 1 failed <nil>", testkit.Next(t, w), "a found mesh can be watched")
	}
	_, err = mesh.Find[*Counter](t.Context(), procs.Slice("gpu", 1, 2), "counters")
	require.ErrorContains(t, err, `actor mesh "counters" has ended on [host=0,gpu=1]: `)
	for _, err := range mesh.ActorsOn[*Counter](procs, "abaci-0000000000000").Watch(t.Context()) {
		require.ErrorAs(t, err, new(*mesh.NotFoundError))
	}
	_, err = other.Lookup(t.Context(), "nobody")
	var missing *mesh.NotFoundError
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, procs.ID().String())
	_, err = mesh.Find[*Counter](t.Context(), procs, "abaci")
	require.ErrorAs(t, err, &missing)
	var owned *mesh.OwnerError
	require.ErrorAs(t, found.Stop(t.Context()), &owned)
	require.Equal(t, c.Proc().ID(), owned.Owner.Proc)
}

func TestHandles_returnErrorsOfBadSlicesAndPoints(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, counters := c.workers(t, 2, 0)
	for name, ref := range map[string]actor.Ref[*Counter]{
		`dimension "cpu": want one of: host, gpu`: counters.At("host", 0, "cpu", 0),
		`index of gpu "2"`:                        counters.At("gpu", 2),
		"want an index for every dimension":       counters.At("host", 0),
		"want pairs of label and index":           counters.At("gpu"),
		"got string and string":                   counters.At("gpu", "0"),
		`rank "9"`:                                counters.Ref(9),
	} {
		_, err := add.Call(t.Context(), ref, 1)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, add.Send(t.Context(), ref, 1), name)
	}
	bad := counters.Slice("gpu", 1, 1).Slice("host", 0, 1)
	_, err := cast.Gather(t.Context(), bad, add, 1)
	require.ErrorContains(t, err, "an end after the begin")
	_, err = cast.Reduce(t.Context(), counters.Select("gpu=7"), add, 1, cast.Sum[int64]())
	require.ErrorContains(t, err, `"7"`)
	half := counters.Slice("gpu", 1, 2)
	require.True(t, half.Equal(half.Select("gpu=1")), "indices are those of the whole mesh")
	require.ErrorContains(t, half.Select("gpu=0").Err(), `base rank "0"`, "outside the slice")
	_, err = mesh.Spawn(t.Context(), procs.Slice("x", 0, 1), counter, "c", 0)
	require.ErrorContains(t, err, `"x"`)
	require.Error(t, bad.Stop(t.Context()))
}

func TestHandles_zeroValuesReturnErrors(t *testing.T) {
	var procs mesh.ProcMesh
	var counters mesh.ActorMesh[*Counter]
	_, err := mesh.HostMesh{}.Slice("host", 0, 1).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.ErrorContains(t, err, "the zero host mesh")
	require.ErrorContains(t, procs.Slice("gpu", 0, 1).Stop(t.Context()), "the zero mesh")
	_, err = procs.Actors(t.Context())
	require.ErrorContains(t, err, "the zero mesh")
	_, err = procs.Logs(t.Context(), mesh.LogQuery{Lines: 1})
	require.ErrorContains(t, err, "the zero mesh")
	for _, err := range procs.Watch(t.Context()) {
		require.ErrorContains(t, err, "the zero mesh")
	}
	_, err = mesh.Spawn(t.Context(), procs, counter, "counters", 0)
	require.ErrorContains(t, err, "the zero mesh")
	_, err = add.Call(t.Context(), counters.At("gpu", 0), 1)
	require.ErrorContains(t, err, "the zero mesh")
	_, err = cast.Choose(t.Context(), counters, add, 1)
	require.ErrorContains(t, err, "the zero mesh")
	require.ErrorContains(t, counters.Stop(t.Context()), "the zero mesh")
}

func TestHosts_surviveUnsolicitedMessages(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	hosts := c.AllHosts(t, c.Net)
	ref := agent.Of(hosts.Infos()[0].ID.Proc()).Via(c.Proc())
	require.NoError(t, agent.Create.Send(t.Context(), ref, agent.CreateRequest{}))
	require.NoError(t, agent.Ready.Send(t.Context(), ref,
		agent.ReadyReport{Proc: c.Proc().ID(), Proof: []byte("guessed")}))
	_, err := agent.Ping.Call(t.Context(), ref, actor.None{})
	require.NoError(t, err)
	_, err = hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
}

func TestSpawn_refusesBadShapesAndNamesAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	hosts := c.AllHosts(t, c.Net)
	_, err := hosts.Spawn(t.Context(), "workers", shape.Of("host", 2))
	require.ErrorContains(t, err, "overlap")
	_, err = hosts.Spawn(t.Context(), "my.workers", shape.Of("gpu", 2))
	require.ErrorContains(t, err, `"my.workers"`)
	_, err = hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 0))
	require.ErrorContains(t, err, "at least 1")
	_, err = hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 1_000_000_000))
	require.ErrorContains(t, err, "1000000000 procs on each host: want at most 4096")
	_, err = hosts.Slice("host", 3, 4).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.Error(t, err)
	all, err := c.Meshes(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestConnect_reportsWhatIsWrongWithTheBus(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, err := mesh.Connect(t.Context(), mesh.Options{Bus: &bus.Options{URL: c.Server.URL(), Token: "wrong"}})
	require.ErrorContains(t, err, c.Server.URL())
	require.NotContains(t, err.Error(), "wrong")
	_, err = mesh.Connect(t.Context(), mesh.Options{Bus: &bus.Options{URL: "nats://127.0.0.1:1"}})
	require.ErrorContains(t, err, "127.0.0.1:1")
	_, err = mesh.Connect(t.Context(), mesh.Options{Namespace: "a b"})
	require.ErrorContains(t, err, `"a b"`)
	_, err = c.Hosts(t.Context())
	require.ErrorContains(t, err, "no host answers")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = c.AwaitHosts(ctx, 2)
	require.ErrorContains(t, err, "0 of 2 hosts")
}

func TestLogs_returnTheLastLinesOfEachRank(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	hosts := c.AllHosts(t, c.Net)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	speakers, err := mesh.Spawn(t.Context(), procs, counter, "speakers", 0)
	require.NoError(t, err)
	_, err = cast.Gather(t.Context(), speakers, say, "hello")
	require.NoError(t, err)
	tails, err := procs.Slice("gpu", 1, 2).Logs(t.Context(), mesh.LogQuery{Lines: 5})
	require.NoError(t, err)
	require.Len(t, tails, 2)
	require.WithinDuration(t, time.Now(), tails[0].Time(0), testkit.Patience)
	tails[0].Times = nil
	require.Equal(t, agent.LogTail{Rank: 1, Stream: "stdout", Lines: []string{"hello from " + strconv.Itoa(1)}},
		tails[0])
}

func TestAwaitHosts_reportsTheMostHostsSeen(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, stop := c.Host(t, "once")
	b := c.Open(t).Control()
	var asked atomic.Int64
	_, err := b.Subscribe("castnet.v1.default.hr.any.info.*.*", func(bus.Msg) {
		if asked.Add(1) == 2 { // later looks find no host
			go stop()
		}
	})
	require.NoError(t, err)
	require.NoError(t, b.Flush(t.Context()))
	conn := c.Connect(t, func(o *mesh.Options) { o.HostsQuiet = 50 * time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // a look that finds none takes 5 s
	defer cancel()
	_, err = conn.AwaitHosts(ctx, 2)
	require.ErrorContains(t, err, "1 of 2 hosts answer")
	require.Greater(t, asked.Load(), int64(1))
}

// A wildcard listener keeps the server from reporting that no host listens.
func TestAwaitHosts_findsAHostThatStartsLaterDespiteAWildcardListener(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		c := testmesh.Start(t, testmesh.InMemory())
		everything := c.Open(t).Data()
		_, err := everything.Subscribe(">", func(bus.Msg) {})
		require.NoError(t, err)
		require.NoError(t, everything.Flush(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		found := make(chan error, 1)
		go func() {
			_, err := c.AwaitHosts(ctx, 1)
			found <- err
		}()
		synctest.Wait() // its first search has begun
		c.Host(t, "a")
		require.NoError(t, <-found)
	})
}

func TestHosts_excludesUnschedulableHosts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.Net = c.Connect(t, operator)
	hosts := c.AllHosts(t, c.Net).Hosts()
	cordon := func(i int, on bool) {
		_, err := agent.Cordon.Call(t.Context(), agent.Of(hosts[i].Proc()).Via(c.Proc()),
			agent.CordonRequest{Cordon: on, Reason: "new disks"})
		require.NoError(t, err)
	}
	finds := func(find func(context.Context) (mesh.HostMesh, error), want []subjects.HostID) {
		t.Helper()
		testkit.Until(t, "a search finds the hosts in time", func() bool {
			found, err := find(t.Context())
			return err == nil && slices.Equal(found.Hosts(), want)
		})
	}
	cordon(1, true)
	finds(c.Hosts, hosts[:1])
	finds(c.Net.AllHosts, hosts)
	short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := c.AwaitHosts(short, 2)
	require.ErrorContains(t, err, "1 of 2 hosts answer")
	require.ErrorContains(t, err, "hosts that take no procs: b is cordoned (new disks)")

	cordon(0, true)
	_, err = c.Hosts(t.Context())
	require.ErrorAs(t, err, new(*mesh.UnschedulableError))
	cordon(0, false)
	cordon(1, false)
	finds(c.Hosts, hosts)
}

// operator makes a client one of a person, who acts on hosts and on the meshes of others.
func operator(o *mesh.Options) { testmesh.Operator(o) }
