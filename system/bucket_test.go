package system_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// removeBucket removes the stream of the worlds.
func (r *rig) removeBucket(t *testing.T) {
	t.Helper()
	m, err := r.Open(t).Control().Request(testkit.Soon(t),
		bus.Msg{Subject: "$JS.API.STREAM.DELETE.KV_castnet-castnet-default"})
	require.NoError(t, err)
	require.Contains(t, string(m.Data), `"success":true`)
}

// records counts the keys of the bucket; -1: there is no bucket.
func (r *rig) records(t *testing.T) int {
	t.Helper()
	b := r.Open(t).Control()
	m, err := b.Request(testkit.Soon(t), bus.Msg{Subject: "$JS.API.STREAM.INFO.KV_castnet-castnet-default"})
	require.NoError(t, err)
	if strings.Contains(string(m.Data), "stream not found") {
		return -1
	}
	kv, err := b.KV(testkit.Soon(t), bus.KVOptions{Bucket: "castnet-castnet-default"})
	require.NoError(t, err)
	all, err := kv.List(testkit.Soon(t), "world.*")
	require.NoError(t, err)
	return len(all)
}

// awaitLive waits until a controller reports a world as live.
func (r *rig) awaitLive(t *testing.T, world string) (w system.WorldState) {
	t.Helper()
	require.Eventually(t, func() bool {
		s, err := system.Find(t.Context(), r.client)
		if err != nil {
			return false
		}
		now, err := system.GetSnapshot.Call(testkit.Soon(t), s, system.Filter{Worlds: []string{world}})
		if err != nil || len(now.Worlds) != 1 {
			return false
		}
		w = now.Worlds[0]
		return w.Status == system.StatusLive
	}, testkit.Patience, 20*time.Millisecond)
	return w
}

// lossRig is a world of four procs on two hosts. One host is in its second generation.
func lossRig(t *testing.T) (r *rig, s system.Spec, a, b *machine, mesh string, kill func()) {
	r = newRig(t, testmesh.JetStream())
	_, kill = r.serve(t, "one")
	first := r.host(t, "first", "w", 0)
	b = r.host(t, "b", "w", 1)
	s = spec("w", shape.Of("x", 4), 2)
	mesh = r.declare(t, s).Mesh
	r.await(t, "w", "world.live")
	first.leave()
	<-first.gone
	r.await(t, "w", "world.unhealthy")
	a = r.host(t, "a", "w", 0)
	r.await(t, "w", "world.live")
	return r, s, a, b, mesh, kill
}

// requireSame requires an unchanged world: same mesh, same procs, and declared.
func (r *rig) requireSame(t *testing.T, s system.Spec, a, b *machine, mesh string) {
	t.Helper()
	w := r.awaitLive(t, "w")
	require.Equal(t, mesh, w.Mesh)
	require.Len(t, w.Procs, 4)
	require.Equal(t, []string{"0.1", "1.1"}, r.liveProcs(t, a, mesh))
	require.Equal(t, []string{"2.0", "3.0"}, r.liveProcs(t, b, mesh))
	again := r.declare(t, s)
	require.Equal(t, system.UpsertResponse{World: "w", Mesh: mesh, Status: system.StatusLive,
		Change: system.ChangeNone}, again)
}

func TestWorlds_lostBucketIsRecreatedAndRefilled_WORLD14(t *testing.T) {
	t.Parallel()
	for _, byOthers := range []bool{false, true} {
		t.Run(fmt.Sprint("by others: ", byOthers), func(t *testing.T) {
			testkit.Virtual(t, func(t *testing.T) { bucketIsGone(t, byOthers) })
		})
	}
}

// bucketIsGone removes the bucket of a controller. byOthers: another client makes another one at
// once.
func bucketIsGone(t *testing.T, byOthers bool) {
	r, s, a, b, mesh, kill := lossRig(t)
	r.declare(t, spec("later", shape.Of("x", 1), 1))
	before, err := system.GetSnapshot.Call(testkit.Soon(t), r.system(t), system.Filter{})
	require.NoError(t, err)
	r.removeBucket(t)
	if byOthers {
		_, err := r.Open(t).Control().KV(testkit.Soon(t), bus.KVOptions{Bucket: "castnet-castnet-default"})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return r.records(t) == 2 }, testkit.Patience, 50*time.Millisecond)
	r.requireSame(t, s, a, b, mesh)
	now, err := system.GetSnapshot.Call(testkit.Soon(t), r.system(t), system.Filter{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, now.Epoch, before.Epoch)

	kill()
	r.serve(t, "two")
	r.requireSame(t, s, a, b, mesh)
	now, err = system.GetSnapshot.Call(testkit.Soon(t), r.system(t), system.Filter{Worlds: []string{"later"}})
	require.NoError(t, err)
	require.Len(t, now.Worlds, 1, "no host runs it: the controller knew it")
}

func TestWorlds_hostsRestoreWorldsWithoutBucketAndController_WORLD14(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r, s, a, b, mesh, kill := lossRig(t)
		kill()
		r.removeBucket(t)
		r.serve(t, "two")
		r.requireSame(t, s, a, b, mesh)
		require.Equal(t, 1, r.records(t))
	})
}

func TestWorlds_standbyTakesOverWithoutABucket_WORLD14(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r, s, a, b, mesh, kill := lossRig(t)
		r.serve(t, "two")
		r.removeBucket(t)
		kill()
		r.requireSame(t, s, a, b, mesh)
	})
}

// A host was away when a world ended in a new bucket, and the first controller never asked it. It
// does not bring the world back. A host that was asked at that end may have stopped its share
// already (WORLD-2).
func TestWorlds_stoppedWorldIsNotAdopted_WORLD14(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, testmesh.JetStream())
		_, kill := r.serve(t, "one")
		w := r.declare(t, spec("w", shape.Of("x", 1), 1))
		a := r.hostAway(t, "a")
		a.runShare(t, r, w.Mesh)
		ask(t, r, system.Stop, system.StopRequest{Worlds: []string{"w"}})
		r.await(t, "w", "world.end")
		require.Len(t, r.liveProcs(t, a, w.Mesh), 1)
		kill()
		r.serve(t, "two")
		require.Empty(t, ask(t, r, system.GetSnapshot, system.Filter{}).Worlds)
		a.join(t, "w", 0) // it is asked now, if it did not answer when the term began
		a.joined(t)
		require.Eventually(t, func() bool { return len(r.liveProcs(t, a, w.Mesh)) == 0 }, testkit.Patience,
			20*time.Millisecond)
		require.NotEqual(t, w.Mesh, r.snapshot(t, "w").Mesh, "it waits for another declaration")
	})
}

// runShare makes a host run the only share of world w, as a controller ordered it once.
func (m *machine) runShare(t *testing.T, r *rig, mesh string) {
	t.Helper()
	id, err := subjects.ParseMeshID(mesh)
	require.NoError(t, err)
	info, err := m.Info(t.Context())
	require.NoError(t, err)
	s := spec("w", shape.Of("x", 1), 1)
	_, err = agent.Create.Call(testkit.Soon(t), agent.Of(m.ID().Proc()).Via(r.client), agent.CreateRequest{
		HostIncarnation: info.Incarnation(),
		Procs: &agent.Mesh{
			ID: id, Extent: s.Shape, Hosts: []subjects.HostID{m.ID()}, PerHost: s.PerHost,
			Owner:   m.ID().Proc().Actor(agent.Name),
			Command: s.Command, World: &agent.WorldShare{World: s.Name, First: 0, Count: 1},
		},
	})
	require.NoError(t, err)
}
