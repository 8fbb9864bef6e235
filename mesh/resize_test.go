package mesh_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// moreHosts starts hosts besides those of the cluster.
func (c *cluster) moreHosts(t *testing.T, labels ...string) mesh.HostMesh {
	t.Helper()
	hosts := c.AllHosts(t, c.Net).Hosts()[:0]
	for _, label := range labels {
		h, _ := c.Host(t, label)
		hosts = append(hosts, h.ID())
	}
	more, err := c.Attach(t.Context(), "more", hosts...)
	require.NoError(t, err)
	return more
}

// travelled is a handle as another program gets it in a message.
func travelled[A any](t *testing.T, m mesh.ActorMesh[A], to *mesh.Net) (got mesh.ActorMesh[A]) {
	t.Helper()
	text, err := m.MarshalText()
	require.NoError(t, err)
	require.NoError(t, got.UnmarshalText(text))
	return got.Via(to)
}

// count casts once, and returns the number of ranks that answered.
func count(t *testing.T, m mesh.ActorMesh[*Counter]) int {
	t.Helper()
	all, err := cast.Gather(testkit.Soon(t), m, add, 1)
	require.NoError(t, err)
	return all.Len()
}

func TestGrow_addsRanksWithTheirActorsForEveryHandle_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", 0)
	require.NoError(t, err)
	half, err := mesh.Spawn(t.Context(), procs.Slice("gpu", 0, 1), counter, "half", 0)
	require.NoError(t, err)
	other := c.Connect(t)
	theirs := travelled(t, counters, other)
	require.Equal(t, 2, count(t, theirs))
	before := c.pids(t, procs)

	grown, err := procs.Grow(testkit.Soon(t), c.moreHosts(t, "b", "c"))
	require.NoError(t, err)
	require.Equal(t, "host=3,gpu=2", grown.Extent().String())
	require.True(t, grown.Equal(procs), "an earlier handle on the whole mesh follows")
	after := c.pids(t, procs)
	require.Len(t, after, 6)
	require.Equal(t, before, map[int]int{0: after[0], 1: after[1]}, "no proc is restarted")
	require.Equal(t, 6, count(t, counters))
	require.Equal(t, 1, count(t, half), "actors on a slice stay there")
	require.Equal(t, 2, count(t, counters.Slice("host", 2, 3)))
	sum, err := cast.Reduce(testkit.Soon(t), counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 3+3+2+2+3+3, sum, "values fold across the added hosts")

	testkit.Until(t, "another program follows", func() bool { return theirs.Extent().NumRanks() == 6 })
	require.Equal(t, 6, count(t, theirs))
	found, err := other.Lookup(testkit.Soon(t), "workers")
	require.NoError(t, err)
	require.Equal(t, "host=3,gpu=2", found.Extent().String())
	n, err := add.Call(testkit.Soon(t), theirs.At("host", 2, "gpu", 1), 1)
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
	late := travelled(t, counters, c.Connect(t))
	require.Equal(t, 6, count(t, late), "the text names the revision")
}

// The actors of gated keep the Grow from its end, after it has looked for the owners of actors.
func TestSpawn_duringAGrowHasActorsOnTheAddedRanks_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	gate := t.TempDir() + "/open"
	_, err = mesh.Spawn(t.Context(), procs, gated, "gated", gate)
	require.NoError(t, err)
	more := c.moreHosts(t, "b")
	grown := make(chan error, 1)
	go func() {
		_, err := procs.Grow(testkit.Soon(t), more)
		grown <- err
	}()
	testkit.Until(t, "the Grow waits for actors", func() bool {
		_, err := os.Stat(gate + ".waits")
		return err == nil
	})
	spawned := make(chan mesh.ActorMesh[*Counter], 1)
	go func() {
		counters, err := mesh.Spawn(testkit.Soon(t), procs, counter, "counters", 0)
		assert.NoError(t, err)
		spawned <- counters
	}()
	testkit.Until(t, "the first actor runs", func() bool {
		all, err := procs.Actors(testkit.Soon(t))
		require.NoError(t, err)
		states, _ := all.At(0)
		return slices.ContainsFunc(states, func(s agent.State) bool {
			return strings.HasPrefix(s.ID, "counters-") && s.Status.Phase == agent.Running
		})
	})
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.NoError(t, testkit.Next(t, grown))
	counters := testkit.Next(t, spawned)
	require.Equal(t, 2, procs.Extent().NumRanks())
	require.Equal(t, 2, count(t, counters))
	small, err := procs.Shrink(testkit.Soon(t), 1)
	require.NoError(t, err)
	require.Equal(t, 1, small.Extent().NumRanks())
	require.Equal(t, 1, count(t, counters), "it follows later changes, too")
}

// A program that never hears of a Grow still reaches the ranks that it knows, all or some.
func TestGrow_staleHandlesReachTheRanksTheyKnow_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", 0)
	require.NoError(t, err)
	stale, err := counters.Target()
	require.NoError(t, err)
	_, err = procs.Grow(testkit.Soon(t), c.moreHosts(t, "c"))
	require.NoError(t, err)
	all, err := cast.Reduce(testkit.Soon(t), fixed{counters, stale}, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 4, all)
	stale.Region, err = stale.Region.Slice("gpu", 1, 2)
	require.NoError(t, err)
	some, err := cast.Reduce(testkit.Soon(t), fixed{counters, stale}, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 4, some)
	_, err = procs.Shrink(testkit.Soon(t), 2)
	require.NoError(t, err)
	_, err = cast.Reduce(testkit.Soon(t), fixed{counters, stale}, add, 1, cast.Sum[int64]())
	partial := new(cast.CoverageError)
	require.ErrorAs(t, err, &partial)
	require.Len(t, partial.Coverage.Failed, 1, "the removed rank fails at once")
}

// fixed is an actor mesh as one process knew it at a moment.
type fixed struct {
	mesh.ActorMesh[*Counter]
	target cast.Target
}

func (f fixed) Target() (cast.Target, error) { return f.target, nil }

func TestShrink_stopsTheLastHostsAndGrowReusesThem_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	hosts := c.AllHosts(t, c.Net)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", 0)
	require.NoError(t, err)
	theirs := travelled(t, counters, c.Connect(t))
	require.Equal(t, 6, count(t, theirs))
	last := counters.Slice("host", 1, 3)
	ended := steps(t, procs)

	small, err := procs.Shrink(testkit.Soon(t), 2)
	require.NoError(t, err)
	require.Equal(t, "host=1,gpu=2", small.Extent().String())
	require.Len(t, c.pids(t, procs), 2)
	require.Contains(t, hear(t, ended), "stopped", "watchers hear of the ends")
	require.Equal(t, 2, count(t, counters))
	testkit.Until(t, "another program follows", func() bool { return theirs.Extent().NumRanks() == 2 })
	require.Equal(t, 2, count(t, theirs))
	removed := new(mesh.RemovedRanksError)
	_, err = cast.Gather(testkit.Soon(t), last, add, 1)
	require.ErrorAs(t, err, &removed)
	require.Equal(t, []int{2, 3, 4, 5}, removed.Ranks)
	require.ErrorAs(t, last.Err(), &removed)
	found, err := c.Connect(t).Lookup(testkit.Soon(t), "workers")
	require.NoError(t, err)
	require.Equal(t, "host=1,gpu=2", found.Extent().String())

	_, err = found.Grow(testkit.Soon(t), hosts.Slice("host", 2, 3)) // other ranks than before, by another program
	require.NoError(t, err)
	testkit.Until(t, "the owner's handle follows", func() bool { return procs.Extent().NumRanks() == 4 })
	require.Equal(t, 4, count(t, counters))
	require.Equal(t, 2, count(t, counters.Slice("host", 1, 2)), "the numbers are in use again")
	testkit.Until(t, "another program follows", func() bool { return theirs.Extent().NumRanks() == 4 })
	require.Equal(t, 4, count(t, theirs))
	require.Len(t, c.pids(t, procs), 4)
}

// A host may answer before it knows the revision that an event has announced.
func TestGrow_anEarlierHandleFollowsAfterAnEarlyAnswer_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", 0)
	require.NoError(t, err)
	other := c.Connect(t)
	theirs := travelled(t, counters, other)
	require.Equal(t, 2, count(t, theirs))
	c.Proc().Emit(actor.Event{Kind: actor.KindProc, Step: actor.StepResize, Status: "resized",
		Mesh: procs.ID().String(), Revision: 1, At: time.Now()})
	testkit.Until(t, "it hears of the revision", func() bool {
		return other.Proc().Members().Revision(procs.ID()) == 1
	})
	require.Equal(t, 2, count(t, theirs), "no host knows it so far")
	_, err = procs.Grow(testkit.Soon(t), c.moreHosts(t, "b"))
	require.NoError(t, err)
	testkit.Until(t, "it follows", func() bool { return theirs.Extent().NumRanks() == 4 })
	require.Equal(t, 4, count(t, theirs))
}

func TestGrow_addedRanksRestart_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	quick := mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond}
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", 1), RestartPolicy: quick})
	require.NoError(t, err)
	counters, err := mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "counters", RestartPolicy: quick})
	require.NoError(t, err)
	_, err = procs.Grow(testkit.Soon(t), c.moreHosts(t, "b"))
	require.NoError(t, err)
	before := c.pids(t, procs)
	require.NoError(t, syscall.Kill(before[1], syscall.SIGKILL))
	testkit.Until(t, "the proc and its actor run again", func() bool {
		_, err := cast.Gather(testkit.Soon(t), counters, add, 1)
		pid, runs := c.pids(t, procs)[1]
		return err == nil && runs && pid != before[1]
	})
}

func TestResize_watchesOfTheWholeMeshFollow_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	goOn := mesh.RestartPolicy{Restart: mesh.Temporary}
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", 2), RestartPolicy: goOn})
	require.NoError(t, err)
	counters, err := mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "counters", RestartPolicy: goOn})
	require.NoError(t, err)
	heard := []<-chan string{
		steps(t, procs), steps(t, counters), steps(t, travelled(t, counters, c.Connect(t)).Procs()),
	}
	allHear := func(want string) {
		t.Helper()
		for i, said := range heard {
			require.Contains(t, hear(t, said), want, "watch %d", i)
		}
	}
	kill := func(rank int) {
		t.Helper()
		require.NoError(t, syscall.Kill(c.pids(t, procs)[rank], syscall.SIGKILL))
		allHear(fmt.Sprintf("%d failed", rank))
	}
	kill(1) // the watches have begun, or they would not hear of it
	more := c.moreHosts(t, "b")
	_, err = procs.Grow(testkit.Soon(t), more)
	require.NoError(t, err)
	allHear("2 running rank.add")
	allHear("3 running rank.add")
	kill(3)
	_, err = procs.Shrink(testkit.Soon(t), 1)
	require.NoError(t, err)
	allHear("2 stopped")
	_, err = procs.Grow(testkit.Soon(t), more)
	require.NoError(t, err)
	allHear("2 running rank.add")
	allHear("3 running rank.add")
	kill(3)
	slice := steps(t, procs.Slice("host", 1, 2))
	require.Contains(t, hear(t, slice), "1 failed", "by rank of the slice")
	heard = append(heard, steps(t, procs))
	require.Contains(t, hear(t, heard[3]), "1 failed", "a later watch lists earlier ends")
	require.Contains(t, hear(t, heard[3]), "3 failed")
	kill(2)
}

func TestGrow_failedLeavesTheMeshAsItWas_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.Net = c.Connect(t, operator)
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", 0)
	require.NoError(t, err)
	said := steps(t, procs)
	closed := c.moreHosts(t, "b")
	_, err = agent.Cordon.Call(t.Context(), agent.Of(closed.Hosts()[0].Proc()).Via(c.Proc()),
		agent.CordonRequest{Cordon: true, Reason: "repair"})
	require.NoError(t, err)
	_, err = procs.Grow(testkit.Soon(t), closed)
	refused := new(mesh.SpawnError)
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "repair")
	require.Equal(t, 1, refused.Failed[0].Rank)
	require.Equal(t, closed.Hosts()[0].String(), refused.Failed[0].Host)
	bad, err := mesh.Spawn(t.Context(), procs, counter, "bad", int64(-1)) // rank 1 cannot be made
	require.NoError(t, err)
	more := c.moreHosts(t, "c")
	_, err = procs.Grow(testkit.Soon(t), more)
	failed := new(mesh.SpawnError)
	require.ErrorAs(t, err, &failed)
	require.ErrorContains(t, err, "cannot count from -1")
	require.Equal(t, 1, procs.Extent().NumRanks())
	require.Equal(t, 1, count(t, counters))
	require.Len(t, c.pids(t, procs), 1)
	require.NoError(t, bad.Stop(t.Context()))
	_, err = procs.Grow(testkit.Soon(t), more)
	require.NoError(t, err, "the next one succeeds")
	require.Equal(t, 2, count(t, counters))
	require.NoError(t, procs.Stop(testkit.Soon(t)))
	require.Contains(t, hear(t, said), "1 running rank.add", "watchers heard of no rank that did not join")
}

func TestTakeOver_findsAddedRanks_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	text, err := procs.MarshalText()
	require.NoError(t, err)
	_, err = procs.Grow(testkit.Soon(t), c.moreHosts(t, "c"))
	require.NoError(t, err)
	_, err = procs.Shrink(testkit.Soon(t), 2)
	require.NoError(t, err)
	_, err = procs.Grow(testkit.Soon(t), c.AllHosts(t, c.Net).Slice("host", 1, 2))
	require.NoError(t, err)

	other := &cluster{c.As(c.Connect(t))}
	var mine mesh.ProcMesh
	require.NoError(t, mine.UnmarshalText(text))
	mine, err = mine.Via(other.Net).TakeOver(testkit.Soon(t), mesh.Takeover{Epoch: 1})
	require.NoError(t, err)
	require.Equal(t, 3, mine.Describe().Revision)
	_, err = procs.Grow(testkit.Soon(t), c.moreHosts(t, "d"))
	require.NotNil(t, agent.AsFenced(err), "the former owner cannot grow it: %v", err)
	_, err = mine.Grow(testkit.Soon(t), c.moreHosts(t, "e").Via(other.Net))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), mine, counter, "counters", 0)
	require.NoError(t, err)
	require.Equal(t, 3, count(t, counters))
}

func TestGrow_refusesMeshesThatCannotGrow_MESH24(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	hosts := c.AllHosts(t, c.Net)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	square, err := hosts.Reshape(shape.Of("rack", 1).With("slot", 2)).Spawn(t.Context(), "square", shape.Unit())
	require.NoError(t, err)
	more := c.moreHosts(t, "c")
	for want, grow := range map[string]func(context.Context) (mesh.ProcMesh, error){
		"want hosts that the mesh does not have": func(ctx context.Context) (mesh.ProcMesh, error) {
			return procs.Grow(ctx, hosts)
		},
		"want either": func(ctx context.Context) (mesh.ProcMesh, error) { return procs.Shrink(ctx, 0) },
		"remove 2 of 2 hosts: want 1 to 1": func(ctx context.Context) (mesh.ProcMesh, error) {
			return procs.Shrink(ctx, 2)
		},
		"remove -1 of 2 hosts": func(ctx context.Context) (mesh.ProcMesh, error) { return procs.Shrink(ctx, -1) },
		"want the whole mesh": func(ctx context.Context) (mesh.ProcMesh, error) {
			return procs.Slice("host", 0, 1).Grow(ctx, more)
		},
		"want its 2 hosts in the first dimension": func(ctx context.Context) (mesh.ProcMesh, error) {
			return square.Grow(ctx, more)
		},
		"the zero host mesh": func(ctx context.Context) (mesh.ProcMesh, error) {
			return procs.Grow(ctx, mesh.HostMesh{})
		},
		"the zero mesh": func(ctx context.Context) (mesh.ProcMesh, error) { return mesh.ProcMesh{}.Shrink(ctx, 1) },
	} {
		_, err := grow(testkit.Soon(t))
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, 2, procs.Extent().NumRanks())
}

// The oracle has the hosts of the mesh and the ranks whose procs were killed.
func TestMesh_randomGrowsAndShrinks_MESH24(t *testing.T) {
	t.Parallel()
	const perHost = 2
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "workers", PerHost: shape.Of("gpu", perHost),
		RestartPolicy: mesh.RestartPolicy{Restart: mesh.Temporary},
	})
	require.NoError(t, err)
	counters, err := mesh.SpawnActors(t.Context(), procs, counter, mesh.ActorSpawnSpec[int64]{
		Label: "counters", RestartPolicy: mesh.RestartPolicy{Restart: mesh.Temporary},
	})
	require.NoError(t, err)
	theirs := travelled(t, counters, c.Connect(t))
	require.Equal(t, perHost, count(t, theirs))
	free := c.moreHosts(t, "b", "c", "d")
	used := 0 // of the free hosts
	killed := map[int]bool{}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for step := range 12 {
		what := "cast"
		switch n := r.IntN(4); {
		case n == 0 && used < 3:
			more := 1 + r.IntN(3-used)
			what = fmt.Sprintf("grow by %d", more)
			_, err := procs.Grow(testkit.Soon(t), free.Slice("host", used, used+more))
			require.NoError(t, err, what)
			used += more
		case n == 1 && used > 0:
			fewer := 1 + r.IntN(used)
			what = fmt.Sprintf("shrink by %d", fewer)
			_, err := procs.Shrink(testkit.Soon(t), fewer)
			require.NoError(t, err, what)
			used -= fewer
			for rank := range killed {
				if rank >= (1+used)*perHost {
					delete(killed, rank)
				}
			}
		case n == 2 && len(killed) < used:
			rank := perHost + r.IntN(used*perHost)
			what = fmt.Sprintf("kill rank %d", rank)
			if pid, runs := c.pids(t, procs)[rank]; runs {
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
				killed[rank] = true
				testkit.Until(t, "the end is known", func() bool {
					return len(c.pids(t, procs))+len(killed) == (1+used)*perHost
				})
			}
		}
		t.Log(step, what, used, killed)
		for name, m := range map[string]mesh.ActorMesh[*Counter]{"own": counters, "of another program": theirs} {
			testkit.Until(t, "the handle "+name+" follows", func() bool {
				return m.Extent().NumRanks() == (1+used)*perHost
			})
			got := map[int]bool{}
			for p, reply := range cast.Stream(testkit.Soon(t), m, add, 1) {
				if reply.Err == nil {
					require.False(t, got[p.Rank()], "once")
					got[p.Rank()] = true
				}
			}
			for rank := range (1 + used) * perHost {
				require.Equal(t, !killed[rank], got[rank], "step %d, %s: rank %d by the handle %s", step, what, rank, name)
			}
		}
	}
}
