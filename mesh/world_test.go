package mesh_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// declare declares a world of the tests' own procs.
func (c *cluster) declare(t *testing.T, name string, extent shape.Extent, perHost int) {
	t.Helper()
	ctl, err := system.Find(t.Context(), c.Proc())
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	d := system.UpsertRequest{Spec: system.Spec{Name: name, Shape: extent, PerHost: perHost,
		Command: agent.Command{Path: self}}}
	_, err = system.Upsert.Call(t.Context(), ctl, d)
	require.NoError(t, err)
}

// running waits until a number of ranks of a mesh run, and returns its handle.
func (c *cluster) running(t *testing.T, conn *mesh.Net, name string, ranks int) (p mesh.ProcMesh) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		if p, err = conn.Lookup(t.Context(), name); err != nil {
			return false
		}
		states, err := p.States(t.Context())
		n := 0
		for _, s := range states.Values() {
			if s.Status.Phase == agent.Running {
				n++
			}
		}
		return err == nil && n == ranks
	}, testkit.Patience, 20*time.Millisecond)
	return p
}

// Three ranks, two per host: the last host has the remainder.
func TestLookup_worldBehavesAsAnyMesh(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Net = c.Connect(t, operator)
	c.System(t, "s")
	c.HostInWorld(t, "a", "train", 0)
	c.HostInWorld(t, "b", "train", 1)
	c.declare(t, "train", shape.Of("x", 3), 2)
	procs := c.running(t, c.Net, "train", 3)
	require.Equal(t, "x=3", procs.Extent().String())
	first, err := procs.Host(0)
	require.NoError(t, err)
	last, err := procs.Host(2)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, []string{first.Label(), last.Label()})

	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", 10)
	require.NoError(t, err)
	n, err := add.Call(t.Context(), counters.At("x", 2), 5)
	require.NoError(t, err)
	require.EqualValues(t, 15, n)
	sum, err := cast.Reduce(t.Context(), counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 38, sum)

	text, err := procs.MarshalText()
	require.NoError(t, err)
	var read mesh.ProcMesh
	require.NoError(t, read.UnmarshalText(text))
	require.True(t, read.Equal(procs))
	require.Equal(t, string(text), read.String())
	for was, is := range map[string]string{"@world/2@": "@world/3@", "@world/": "@globe/"} {
		wrong := strings.Replace(string(text), was, is, 1)
		require.NotEqual(t, string(text), wrong)
		require.ErrorAs(t, new(mesh.ProcMesh).UnmarshalText([]byte(wrong)), new(*mesh.RefError), wrong)
	}
	other := c.Connect(t)
	found, err := mesh.Find[*Counter](t.Context(), read.Via(other), "counters")
	require.NoError(t, err)
	all, err := cast.Gather(t.Context(), found, add, 0)
	require.NoError(t, err)
	require.Equal(t, []int64{11, 11, 16}, all.Values())

	one, err := mesh.Service(t.Context(), procs, counter, "one", 0)
	require.NoError(t, err)
	again, err := mesh.Service(t.Context(), read.Via(other), counter, "one", 0)
	require.NoError(t, err, "a service is the same for each caller")
	require.True(t, one.Equal(again))

	refused := procs.Restart(t.Context(), mesh.RollingRestart{})
	require.ErrorContains(t, refused,
		"the ranks of world train restart with their hosts: stop each hostd (SIGTERM) and start it again, one "+
			"after another")
	require.ErrorContains(t, refused, " (--world train --host-rank 0)")
	require.ErrorContains(t, procs.Slice("x", 0, 1).Stop(t.Context()),
		"cannot stop 1 ranks of world train: want all 3")
	require.NoError(t, found.Procs().Via(c.Net).Stop(t.Context()), "any operator with a handle may stop it")
	require.Empty(t, c.pids(t, procs))
	_, err = c.Lookup(t.Context(), "train")
	require.ErrorAs(t, err, new(*mesh.NotFoundError))
}

func TestLookup_worldWithMissingHostsIsPartlyReachable(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Net = c.Connect(t, operator)
	c.System(t, "s")
	leave := c.HostInWorld(t, "a", "train", 0)
	c.HostInWorld(t, "c", "train", 2)
	c.declare(t, "train", shape.Of("x", 3), 1)
	procs := c.running(t, c.Net, "train", 2)
	_, err := procs.Host(1)
	require.ErrorContains(t, err, "world train has no host of rank 1 for its rank 1")
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, agent.NotExist, states.Values()[1].Status.Phase)
	text, err := procs.MarshalText()
	require.NoError(t, err)
	require.Contains(t, string(text), ",-,")
	var read mesh.ProcMesh
	require.NoError(t, read.UnmarshalText(text))
	require.True(t, read.Equal(procs))

	ends, err := mesh.SpawnActors(t.Context(), procs.Slice("x", 2, 3), counter,
		mesh.ActorSpawnSpec[int64]{Label: "counters", Params: 1})
	require.NoError(t, err, "ranks without a host are not asked")
	n, err := add.Call(t.Context(), ends.Ref(0), 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)

	// A message on its way to an ending proc comes back, also when the rank has a new proc
	// (test_update_sim_address).
	leaver, err := mesh.Spawn(t.Context(), procs.Slice("x", 0, 1), counter, "leaver", 0)
	require.NoError(t, err)
	old := leaver.Ref(0)
	pid := states.Values()[0].Proc.PID
	proctest.Suspend(t, pid)
	const mails = 20
	for range mails {
		require.NoError(t, add.Send(t.Context(), old, 1))
	}
	require.NoError(t, cast.Send(t.Context(), leaver, add, 1))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))

	// The next host of rank 0 runs another incarnation; a new lookup finds it.
	leave()
	c.HostInWorld(t, "b", "train", 0)
	c.HostInWorld(t, "d", "train", 1)
	other := c.Connect(t)
	procs = c.running(t, other, "train", 3)
	first, err := procs.Host(0)
	require.NoError(t, err)
	require.Equal(t, "b", first.Label())
	alive, err := procs.Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true}, alive.Values())
	c.oldMailReturns(t, old, mails+1)
	whole, err := mesh.Spawn(t.Context(), procs, counter, "whole", 1)
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 0, 0}, []uint32{whole.Ref(0).ID().Proc.Gen, whole.Ref(1).ID().Proc.Gen,
		whole.Ref(2).ID().Proc.Gen})
	sum, err := cast.Reduce(t.Context(), whole, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 6, sum)
	require.ErrorIs(t, procs.Stop(t.Context()), actor.ErrDenied)
	require.NoError(t, procs.Via(c.Net).Stop(t.Context()))
}

// oldMailReturns requires that the messages to an ended incarnation come back, also later ones. The
// next incarnation has an actor of the same name, but none of these messages.
func (c *cluster) oldMailReturns(t *testing.T, old actor.Ref[*Counter], mails int) {
	t.Helper()
	heir := old.ID()
	heir.Proc.Gen++
	spec := agent.ActorSpec{Name: heir.Name, Type: counter.Name(), Params: []byte{0},
		Owner: c.Proc().ID().Actor("owner")}
	_, err := agent.Create.Call(t.Context(), agent.Of(heir.Proc).Via(c.Proc()),
		agent.CreateRequest{Actors: &spec, Wait: true})
	require.NoError(t, err)
	back := func() (n int) {
		for _, r := range c.Proc().DeadLetters() {
			if r.Reason.Actor == old.ID().String() {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return back() == mails }, testkit.Patience, 5*time.Millisecond,
		"all came back")
	if err := add.Send(t.Context(), old, 1); err == nil {
		require.Eventually(t, func() bool { return back() == mails+1 }, testkit.Patience, 5*time.Millisecond)
	}
	n, err := add.Call(t.Context(), actor.RefOf[*Counter](heir).Via(c.Proc()), 0)
	require.NoError(t, err)
	require.Zero(t, n, "mail to the one before it is not its own")
}

// eventWords is the events of a watch, one text each.
func eventWords(t *testing.T, w iter.Seq2[actor.Event, error]) <-chan string {
	t.Helper()
	out := make(chan string, 64)
	go func() {
		defer close(out)
		for e, err := range w {
			out <- fmt.Sprintf("%d.%d at %d %s %v", e.Rank, e.Gen, e.View, e.Status, err)
		}
	}()
	t.Cleanup(func() {
		for range out { // the test's context has ended, and so does the watch
		}
	})
	return out
}

func TestWatch_worldBehavesAsAnyMesh_MESH6(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Net = c.Connect(t, operator)
	patient := &config.Config{}
	require.NoError(t, config.WorldEvictionTimeout.Override(patient, time.Hour))
	c.System(t, "s", func(o *system.Options) { o.Config = patient })
	c.HostInWorld(t, "a", "train", 0)
	leave := c.HostInWorld(t, "b", "train", 1)
	c.declare(t, "train", shape.Of("x", 3), 2)
	procs := c.running(t, c.Net, "train", 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ends, part := eventWords(t, procs.Watch(ctx)), eventWords(t, procs.Slice("x", 1, 3).Changes(ctx))
	require.NoError(t, syscall.Kill(c.pids(t, procs)[1], syscall.SIGKILL))
	require.Equal(t, "1.0 at 1 failed <nil>", testkit.Next(t, ends))
	require.Equal(t, "1.0 at 0 failed <nil>", testkit.Next(t, part))
	late := eventWords(t, procs.Via(c.Connect(t)).Watch(ctx))
	require.Equal(t, "1.0 at 1 failed <nil>", testkit.Next(t, late), "earlier ends are reported")
	leave()
	for _, w := range []<-chan string{ends, late} {
		require.Equal(t, "2.0 at 2 stopped <nil>", testkit.Next(t, w))
	}
	require.Equal(t, "2.0 at 1 stopped <nil>", testkit.Next(t, part))
	c.HostInWorld(t, "c", "train", 1)
	require.Equal(t, "2.1 at 1 running <nil>", testkit.Next(t, part), "another incarnation has the rank")
	require.Eventually(t, func() bool {
		alive, err := procs.Ping(t.Context())
		return err == nil && slices.Equal([]bool{true, false, true}, alive.Values())
	}, testkit.Patience, 20*time.Millisecond, "and who has a handle reaches it without a step of his own")

	require.NoError(t, procs.Stop(t.Context()))
	for _, w := range []<-chan string{ends, late} {
		require.ElementsMatch(t, []string{"0.0 at 0 stopped <nil>", "2.1 at 2 stopped <nil>"},
			[]string{testkit.Next(t, w), testkit.Next(t, w)})
	}
	require.Equal(t, "2.1 at 1 stopped <nil>", testkit.Next(t, part))
	cancel()
	for _, w := range []<-chan string{ends, late, part} {
		_, more := <-w
		require.False(t, more, "each end once")
	}
}

func TestWatch_worldWatchEndsWithoutASystemController_MESH12(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.System(t, "s")
	c.HostInWorld(t, "a", "train", 0)
	c.declare(t, "train", shape.Of("x", 1), 1)
	cfg := &config.Config{}
	require.NoError(t, config.SupervisionControllerTimeout.Override(cfg, time.Second))
	procs := c.running(t, c.Connect(t, configured(cfg)), "train", 1)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	require.NoError(t, s.Close(ctx))
	for e, err := range procs.Watch(t.Context()) {
		if e.Terminal() && e.Kind == actor.KindProc {
			continue // where there is no store, hosts may hear so
		}
		require.ErrorAs(t, err, new(*mesh.ControllerError))
		require.ErrorContains(t, err, "system controller") // none listens, or a busy server does not say so in time
	}
}

// worldOf is the mesh of a world.
func (c *cluster) worldOf(t *testing.T, name string) string {
	t.Helper()
	ctl, err := system.Find(t.Context(), c.Proc())
	require.NoError(t, err)
	now, err := system.GetSnapshot.Call(t.Context(), ctl, system.Filter{Worlds: []string{name}})
	require.NoError(t, err)
	require.Len(t, now.Worlds, 1)
	return now.Worlds[0].Mesh
}

func TestLookup_prefersAWorldToAMeshOfTheSameName(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "z")
	c.Net = c.Connect(t, operator)
	c.System(t, "s")
	c.declare(t, "workers", shape.Of("x", 1), 1)
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	c.HostInWorld(t, "a", "workers", 0)
	world := c.running(t, c.Net, c.worldOf(t, "workers"), 1)
	found, err := c.Connect(t).Lookup(t.Context(), "workers")
	require.NoError(t, err)
	require.True(t, found.Equal(world))
	require.NoError(t, procs.Stop(t.Context()))
	require.NoError(t, world.Stop(t.Context()))
}
