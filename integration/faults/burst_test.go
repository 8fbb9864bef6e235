package faults

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// million is the size of a burst: tiny messages as fast as one client sends them.
const million = 1_000_000

// burst sends a million messages to a subject: empty ones, garbage, beginnings of packets, and
// JSON.
func (w *world) burst(f *figures, subject string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	b, err := bus.Open(ctx, bus.Options{URL: "nats://" + w.addr, Name: "stranger"})
	require.NoError(w, err)
	defer func() { require.NoError(w, b.Close(context.Background())) }()
	bodies := [][]byte{nil, []byte("\xff\x01 garbage"), {0, 1, 2, 3, 4, 5, 6, 7}, []byte("null")}
	began := time.Now()
	for i := range million {
		require.NoError(w, b.Data().Publish(subject, bodies[i%len(bodies)]))
	}
	require.NoError(w, b.Data().Flush(ctx))
	f.time("burst", time.Since(began))
}

// Two workers exchange messages and calls, and a third casts to a mesh. Meanwhile one of them gets
// a million foreign messages on a subject of one kind.
func TestF33_foreignBurstLosesNoMessage(t *testing.T) {
	space := subjects.Space{}
	for _, kind := range []struct {
		name    string
		subject func(to *worker, victim subjects.ActorID) string
	}{
		{"p", func(_ *worker, victim subjects.ActorID) string {
			return space.Port(victim.Port("measure"), subjects.Anon())
		}},
		{"f", func(to *worker, _ subjects.ActorID) string { return space.Frame(to.id.Process(), subjects.Anon()) }},
		{"c", func(to *worker, _ subjects.ActorID) string { return space.Control(to.id.Process(), subjects.Anon()) }},
		{"n", func(to *worker, _ subjects.ActorID) string {
			return space.Hint(to.id.Process(), "1")
		}},
		{"ev", func(to *worker, _ subjects.ActorID) string {
			return space.Event(actor.KindProc, to.id.Scope(), subjects.Anon())
		}},
		{"hb", func(*worker, subjects.ActorID) string {
			return space.Heartbeat(agent.KindHostHeartbeat,
				subjects.Anon())
		}},
	} {
		try(t, fault{"F33 burst of " + kind.name, 1, often}, func(t *testing.T, seed uint64, f *figures) {
			w := newWorld(t, seed, serverConfig{})
			p := w.pair(load{Mode: call, Senders: 2, Messages: 1500, Rate: 300})
			w.begin(p.left, load{Mode: wait, Senders: 2, Messages: 1500, Rate: 300}, p.right.spawn(t, recorders{N: 1}))
			victim := p.right.spawn(t, recorders{N: 1})[0] // its mailbox is full of the burst, as it should be
			done := w.settle(3*patience, p.left, p.right)
			w.burst(f, kind.subject(p.right, victim))
			done.wait(t)
			_, v := w.finish()
			f.judge(t, v)
			require.Zero(t, v.Indeterminate+v.Undeliverable, v)
		})
	}
}

func TestF33_foreignBurstOnTheCastSubjectLosesNoCast(t *testing.T) {
	try(t, fault{"F33 burst of k", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		c := newWorld(t, seed, serverConfig{}).meshes()
		c.begin(load{Senders: 2, Messages: 600, Rate: 150})
		done := c.settle(3*patience, c.caller)
		c.burst(f, subjects.Space{}.Cast(c.place.Mesh, "member", "mark", "_-_", subjects.Anon()))
		done.wait(t)
		for _, o := range c.outcomes(f) {
			require.Empty(t, slices.Concat(o.Failed, o.Missing), "no rank has died: %+v", o)
		}
		_, v := c.finish()
		f.judge(t, v)
		require.Zero(t, v.Indeterminate+v.Undeliverable, v)
	})
}

// Hosts are hostd processes. A flooded host answers again once the burst is over.
func TestF33_foreignBurstEndsNoHost(t *testing.T) {
	space := subjects.Space{}
	try(t, fault{"F33 burst at hosts", 1, seldom}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		e := newEstate(t, bus.Options{URL: "nats://" + w.addr}, "a", "b")
		e.spawnMesh(2, mesh.RestartPolicy{}, 0)
		before, calling := e.pids(), e.startCallers(2)
		host := e.hosts[0].id()
		for _, subject := range []string{
			space.HostRead(subjects.Any, "info", subjects.Anon()),
			space.HostRead(host.String(), "get", subjects.Anon()), "$SRV.PING",
			space.Heartbeat(agent.KindHostHeartbeat, subjects.Anon()),
			space.Event(actor.KindProc, e.procs.ID().Scope(), subjects.Anon()),
			space.Gateway("workers", "tickers", "tick", subjects.Anon()),
		} {
			w.burst(f, subject)
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := e.net.AwaitHosts(ctx, 2)
				return err == nil && slices.Equal(before, e.pids())
			}, 2*patience, 50*time.Millisecond, subject)
		}
		calling.stop()
		f.count("answered", int(calling.answered.Load()))
		require.Zero(t, calling.dead.Load()+calling.other.Load())
	})
}
