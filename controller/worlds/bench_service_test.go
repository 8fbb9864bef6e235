package worlds_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// dummy is the agent of a host whose procs are imagined, and run as soon as they are ordered.
type dummy struct {
	agent.Agent
	table *agent.Table
	id    subjects.HostID
}

func (d *dummy) Create(_ *actor.Context, c agent.Creation) (agent.Overlay, error) {
	id := c.Procs.ID.String()
	ranks := make([]int, c.Procs.World.Count)
	for k := range ranks {
		ranks[k] = c.Procs.World.First + k
	}
	starts, err := d.table.Create(agent.Making{ID: id, Hash: id, Ranks: ranks, Gen: c.Gen, Exact: true, Mesh: c.Procs})
	for _, s := range starts {
		d.table.Advance(id, s.Rank, agent.Status{Phase: agent.Running})
	}
	return d.table.Overlay(id), err
}

func (d *dummy) Wait(_ *actor.Context, w agent.Waiting) (agent.Overlay, error) {
	return d.table.Overlay(w.ID), nil
}

func (d *dummy) Get(_ *actor.Context, q agent.Query) ([]agent.State, error) {
	return d.table.States(q.ID), nil
}

func (d *dummy) info() agent.HostInfo { return agent.HostInfo{ID: d.id, Started: time.Unix(1, 0)} }

func (r *rig) dummy(b *testing.B, label string) *dummy {
	b.Helper()
	id, err := subjects.NewHostID(label)
	require.NoError(b, err)
	d := &dummy{table: agent.NewTable(), id: id}
	typ := actor.NewType[agent.Agent, actor.None](agent.HostType)
	registry, err := actor.NewRegistry(typ.Made(func(*actor.Context, actor.None) (agent.Agent, error) { return d, nil },
		append(agent.Methods(), agent.Info.By(func(agent.Agent, *actor.Context, actor.None) (agent.HostInfo, error) { return d.info(), nil }))...))
	require.NoError(b, err)
	p, err := actor.NewProc(b.Context(), actor.Options{ID: id.Proc(), Bus: bustest.Open(b, r.srv), Registry: registry, Log: zerolog.Nop()})
	require.NoError(b, err)
	b.Cleanup(func() { _ = p.Close(b.Context()) })
	_, err = p.Spawn(b.Context(), actor.Spawning{Type: typ.Name(), Name: agent.Name, Params: actor.None{}})
	require.NoError(b, err)
	return d
}

// A new controller reads 1,000 worlds with ten procs each, asks the hosts, and knows how everything is.
func BenchmarkReconcile(b *testing.B) {
	const hosts, each = 20, 50
	r := newRig(b, store)
	_, kill := r.serve(b, "first")
	system := r.system(b)
	for h := range hosts {
		d := r.dummy(b, fmt.Sprintf("h%d", h))
		for w := range each {
			name := fmt.Sprintf("w%d-%d", h, w)
			_, err := worlds.Upsert.Call(b.Context(), system, worlds.Declaration{Spec: spec(name, shape.Of("x", 10), 10)})
			require.NoError(b, err)
			_, err = worlds.Join.Call(b.Context(), system, worlds.Joining{World: name, Host: &worlds.JoiningHost{ID: d.id, Life: d.info().Life()}})
			require.NoError(b, err)
		}
	}
	live := func() (n int) {
		s, err := worlds.Find(b.Context(), r.client)
		if err != nil {
			return 0
		}
		now, err := worlds.Snap.Call(b.Context(), s, worlds.Filter{})
		if err != nil {
			return 0
		}
		for _, w := range now.Worlds {
			if w.Status == worlds.Live {
				n++
			}
		}
		return n
	}
	drain := func() {
		for len(r.told) > 0 {
			<-r.told
		}
	}
	await := func() {
		for live() < hosts*each {
			drain()
			time.Sleep(5 * time.Millisecond)
		}
	}
	await()
	for n := 0; b.Loop(); n++ {
		kill()
		start := time.Now()
		_, kill = r.serve(b, fmt.Sprint(n))
		await()
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/reconcile-and-lease")
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB-heap-of-everything")
	cpu := func() time.Duration {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, start := cpu(), time.Now()
	time.Sleep(3 * time.Second)
	b.ReportMetric(100*float64(cpu()-before)/float64(time.Since(start)), "%-cpu-idle-of-everything")
}
