package faults

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// estate is hosts, each a hostd of its own, and a mesh of procs with an actor in each. The test
// owns the mesh.
type estate struct {
	*testing.T
	hosts   []*machine
	net     *mesh.Net
	procs   mesh.ProcMesh
	tickers mesh.ActorMesh[*ticker]
}

// newEstate starts hosts on a bus, and connects the future owner of a mesh there.
func newEstate(t *testing.T, o bus.Options, labels ...string) *estate {
	t.Helper()
	program := buildHostd(t, "")
	e := &estate{T: t}
	for _, label := range labels {
		e.hosts = append(e.hosts, joined(t, program, label, o))
	}
	e.connect(o)
	return e
}

func (e *estate) connect(o bus.Options) {
	e.Helper()
	var err error
	e.net, err = mesh.Connect(e.Context(),
		mesh.Options{Bus: &o, Label: "estate", OnFailure: func(actor.Event) {}})
	require.NoError(e, err)
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.net.Close(ctx) // its hosts may be gone
	})
}

// spawnMesh makes the mesh.
func (e *estate) spawnMesh(perHost int, p mesh.RestartPolicy, lease time.Duration) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), patience)
	defer cancel()
	hosts, err := e.net.AwaitHosts(ctx, len(e.hosts))
	require.NoError(e, err)
	e.procs, err = hosts.SpawnProcs(ctx, mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", perHost),
		RestartPolicy: p, Lease: lease})
	require.NoError(e, err)
	e.tickers, err = mesh.SpawnActors(ctx, e.procs, tickerType,
		mesh.ActorSpawnSpec[actor.None]{Label: "tickers", RestartPolicy: p, Lease: lease})
	require.NoError(e, err)
}

// pids are the processes of the mesh, by rank.
func (e *estate) pids() (all []int) {
	e.Helper()
	states, err := e.procs.States(e.Context())
	require.NoError(e, err)
	for _, s := range states.Values() {
		all = append(all, s.Proc.PID)
	}
	return all
}

// changes are the changes of a mesh's ranks, as its watchers get them.
type changes struct {
	*testing.T
	heard chan heardEnd
	n     int // ends so far
}

// watch receives the changes of a mesh until the test ends.
func (e *estate) watch(m mesh.Watchable) *changes {
	e.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &changes{e.T, make(chan heardEnd, 1<<12), 0}
	var watching sync.WaitGroup
	watching.Go(func() {
		for ev, err := range m.Watch(ctx) {
			h := heardEnd{At: time.Now(), Event: ev}
			if err != nil {
				h.Err = err.Error()
			}
			c.heard <- h
		}
	})
	e.Cleanup(func() { cancel(); watching.Wait() })
	return c
}

// next is the next end.
func (c *changes) next() heardEnd {
	c.Helper()
	select {
	case h := <-c.heard:
		require.Empty(c, h.Err)
		c.n++
		return h
	case <-time.After(patience):
		require.FailNow(c, "no event")
		return heardEnd{}
	}
}

// quiet requires no further change until a time.
func (c *changes) quiet(until time.Time) {
	c.Helper()
	select {
	case h := <-c.heard:
		require.FailNow(c, "more is told", "%+v", h)
	case <-time.After(time.Until(until)):
	}
}

// callers call all ranks in turn, again and again, and count the results.
type callers struct {
	answered, dead, other atomic.Int64
	lastDead              atomic.Int64 // when a call was last said to have found its proc dead, in Unix ns
	stop                  func()
}

// startCallers makes some callers call until they are stopped.
func (e *estate) startCallers(n int) *callers {
	ctx, cancel := context.WithCancel(context.Background())
	var calling sync.WaitGroup
	c := &callers{stop: sync.OnceFunc(func() { cancel(); calling.Wait() })}
	ranks := e.procs.Extent().NumRanks()
	for i := range n {
		calling.Go(func() {
			for rank := i; ctx.Err() == nil; rank++ {
				once, done := context.WithTimeout(ctx, patience)
				_, err := tick.Call(once, e.tickers.Ref(rank%ranks), 1)
				done()
				switch {
				case err == nil:
					c.answered.Add(1)
				case errors.Is(err, actor.ErrProcDead):
					c.dead.Add(1)
					c.lastDead.Store(time.Now().UnixNano())
				case ctx.Err() == nil:
					c.other.Add(1)
				}
			}
		})
	}
	e.Cleanup(c.stop)
	return c
}
