package mesh_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
)

// patience bounds every wait.
const patience = 30 * time.Second

// system starts a system controller; the cluster's server may have JetStream.
func (c *cluster) system(t *testing.T, label string) *worlds.Service {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Options{URL: c.server.URL(), Token: "secret"})
	require.NoError(t, err)
	s, err := worlds.Start(t.Context(), worlds.Options{Bus: b, Label: label, Log: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, s.Close(ctx))
		require.NoError(t, b.Close(ctx))
	})
	require.Eventually(t, func() bool {
		_, err := worlds.Find(t.Context(), c.Proc())
		return err == nil
	}, patience, 20*time.Millisecond)
	return s
}

// inWorld starts a host of a world. leave takes it out in good order, and ends it.
func (c *cluster) inWorld(t *testing.T, label, world string, rank int) (leave func()) {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Options{URL: c.server.URL(), Token: "secret", Name: "host/" + label})
	require.NoError(t, err)
	h, err := host.Start(t.Context(), host.Options{
		Label: label, Bus: b, Settings: agent.BusSettings{URL: c.server.URL(), Token: "secret"}, Log: zerolog.Nop(), AllowUser: true,
	})
	require.NoError(t, err)
	info, err := h.Info(t.Context())
	require.NoError(t, err)
	ctx, out := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		joining := worlds.Joining{World: world, Host: &worlds.JoiningHost{ID: h.ID(), Rank: rank, Life: info.Life()}}
		worlds.Stay(ctx, h.Proc(), joining, func(worlds.Joined, error) {})
	}()
	ended := false
	leave = func() {
		if ended {
			return
		}
		ended = true
		out()
		<-gone
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, h.Close(ctx))
		require.NoError(t, b.Close(ctx))
	}
	t.Cleanup(leave)
	return leave
}

// declare declares a world of the tests' own procs.
func (c *cluster) declare(t *testing.T, name string, extent shape.Extent, perHost int) {
	t.Helper()
	system, err := worlds.Find(t.Context(), c.Proc())
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	spec := worlds.Spec{Name: name, Shape: extent, PerHost: perHost, Command: agent.Command{Path: self}}
	_, err = worlds.Upsert.Call(t.Context(), system, worlds.Declaration{Spec: spec})
	require.NoError(t, err)
}

// running waits until so many ranks of a mesh run, and is its handle then.
func (c *cluster) running(t *testing.T, net *mesh.Net, name string, ranks int) (p mesh.ProcMesh) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		if p, err = net.Lookup(t.Context(), name); err != nil {
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
	}, patience, 20*time.Millisecond)
	return p
}

// Three ranks, two per host: the last host has the remainder.
func TestLookup_aWorldIsAMeshLikeAnother(t *testing.T) {
	c := newCluster(t)
	c.system(t, "s")
	c.inWorld(t, "a", "train", 0)
	c.inWorld(t, "b", "train", 1)
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
	other := c.connect(t)
	found, err := mesh.Find[*Counter](t.Context(), read.Via(other), "counters")
	require.NoError(t, err)
	all, err := cast.Gather(t.Context(), found, add, 0)
	require.NoError(t, err)
	require.Equal(t, []int64{11, 11, 16}, all.Values())

	one, err := mesh.Service(t.Context(), procs, counter, "one", 0)
	require.NoError(t, err)
	again, err := mesh.Service(t.Context(), read.Via(other), counter, "one", 0)
	require.NoError(t, err, "a service is the same for whoever asks")
	require.True(t, one.Equal(again))

	for _, err := range procs.Watch(t.Context()) {
		require.ErrorContains(t, err, "watch world train: the system controller owns it")
	}
	require.ErrorContains(t, procs.Slice("x", 0, 1).Stop(t.Context()), "stop 1 ranks of world train: it is stopped as a whole: want all 3")
	require.NoError(t, found.Procs().Stop(t.Context()), "whoever has a handle stops it, as any mesh")
	require.Empty(t, c.pids(t, procs))
	_, err = c.Lookup(t.Context(), "train")
	require.ErrorAs(t, err, new(*mesh.NotFoundError))
}

func TestLookup_aWorldThatLacksHostsIsReachedWhereItIsThere(t *testing.T) {
	c := newCluster(t)
	c.system(t, "s")
	leave := c.inWorld(t, "a", "train", 0)
	c.inWorld(t, "c", "train", 2)
	c.declare(t, "train", shape.Of("x", 3), 1)
	procs := c.running(t, c.Net, "train", 2)
	_, err := procs.Host(1)
	require.ErrorContains(t, err, "world train has no host of rank 1, which would have its rank 1")
	states, err := procs.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, agent.NotExist, states.Values()[1].Status.Phase)
	text, err := procs.MarshalText()
	require.NoError(t, err)
	require.Contains(t, string(text), ",-,")
	var read mesh.ProcMesh
	require.NoError(t, read.UnmarshalText(text))
	require.True(t, read.Equal(procs))

	ends, err := mesh.SpawnActors(t.Context(), procs.Slice("x", 2, 3), counter, mesh.ActorSpawning[int64]{Label: "counters", Params: 1})
	require.NoError(t, err, "what has no host is not asked")
	n, err := add.Call(t.Context(), ends.Ref(0), 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)

	// The next host of rank 0 runs another incarnation, which a new look finds.
	leave()
	c.inWorld(t, "b", "train", 0)
	c.inWorld(t, "d", "train", 1)
	other := c.connect(t)
	procs = c.running(t, other, "train", 3)
	first, err := procs.Host(0)
	require.NoError(t, err)
	require.Equal(t, "b", first.Label())
	alive, err := procs.Ping(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true}, alive.Values())
	whole, err := mesh.Spawn(t.Context(), procs, counter, "whole", 1)
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 0, 0}, []uint32{whole.Ref(0).ID().Proc.Gen, whole.Ref(1).ID().Proc.Gen, whole.Ref(2).ID().Proc.Gen})
	sum, err := cast.Reduce(t.Context(), whole, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 6, sum)
	require.NoError(t, procs.Stop(t.Context()))
}

func TestLookup_aNameOfAWorldAndAMeshIsAmbiguous(t *testing.T) {
	c := newCluster(t, "z")
	c.system(t, "s")
	c.inWorld(t, "a", "workers", 0)
	c.declare(t, "workers", shape.Of("x", 1), 1)
	world := c.running(t, c.Net, "workers", 1)
	hosts, err := c.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	_, err = c.connect(t).Lookup(t.Context(), "workers")
	var ambiguous *mesh.AmbiguousError
	require.ErrorAs(t, err, &ambiguous)
	require.ElementsMatch(t, []string{world.ID().String(), procs.ID().String()}, ambiguous.Candidates)
	found, err := c.connect(t).Lookup(t.Context(), world.ID().String())
	require.NoError(t, err)
	require.True(t, found.Equal(world))
	require.NoError(t, procs.Stop(t.Context()))
	require.NoError(t, world.Stop(t.Context()))
}
