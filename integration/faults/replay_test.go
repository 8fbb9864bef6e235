package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/integration/faults/chaos"
	"github.com/castnet-io/castnet/integration/faults/history"
	"github.com/castnet-io/castnet/subjects"
)

// hurried selects every third run: there messages expire while they are held. If their receiver
// cannot be queried by then, their fate is unknown.
func hurried(seed uint64) bool { return seed%3 == 0 }

// holding is a run in which the proxy holds the messages of left while left goes on sending.
func holding(w *world) (pairing, *chaos.Held, int64) {
	w.Helper()
	l := load{Mode: []string{post, wait}[w.seed%2], Senders: 4, Messages: 2000, Rate: 1000}
	if hurried(w.seed) {
		l.Deadline = 100 * time.Millisecond
	}
	p := w.pair(l)
	w.pause(200*time.Millisecond, 600*time.Millisecond)
	held, before := p.left.proxy.Hold(), p.left.proxy.Stats().Up
	w.pause(200*time.Millisecond, 600*time.Millisecond)
	return p, held, p.left.proxy.Stats().Up - before
}

// release forwards the held messages, and waits until the server has all.
func release(t *testing.T, p *chaos.Proxy, held *chaos.Held, pairs int) {
	t.Helper()
	held.Release()
	require.Eventually(t, func() bool { return p.Stats().Open <= pairs }, patience, time.Millisecond)
}

// awaitRequest waits until a worker has a request of another. By then it has the server's earlier
// messages.
func awaitRequest(t *testing.T, by *worker, from *worker, at subjects.ActorID) {
	t.Helper()
	r := from.do(t, order{Do: "call", To: at, Endpoint: measure.Name()})
	require.Zero(t, r.Outcome.Code, "%s: %s", by.name, r.Outcome.Text)
}

// connections counts the connections of a worker.
const connections = 2

func TestF17_replayedBytesAreNotHandledAgain(t *testing.T) {
	t.Parallel()
	run := func(w *world, f *figures, reconnect func(pairing, *chaos.Held)) {
		w.Helper()
		p, held, late := holding(w)
		again := time.Now()
		reconnect(p, held)
		w.settle(2*patience, p.left, p.right).wait(w.T)
		release(w.T, p.left.proxy, held, connections)
		awaitRequest(w.T, p.right, p.left, p.right.spawn(w.T, recorders{N: 1})[0])
		repeated := 0
		for _, peer := range p.right.look(w.T).Info.Peers {
			repeated += int(peer.Duplicates)
		}
		records, v := w.finish()
		f.judge(w.T, v)
		f.time("recovery", recovery(records, again, again, p.left.id.String(), p.right.id.String()))
		if !hurried(w.seed) {
			require.Zero(w.T, v.Indeterminate, v)
		}
		f.count("late bytes", int(late))
		f.must("refused as repeated", repeated)
	}
	try(t, fault{"F17 sender reconnected", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		run(newWorld(t, seed, serverConfig{}), f, func(_ pairing, held *chaos.Held) { held.SendAway() })
	})
	try(t, fault{"F17 sender reconnected elsewhere", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w, other := newCluster(t, seed, 0, 0)
		run(w, f, func(p pairing, held *chaos.Held) {
			p.left.proxy.Redirect(other)
			held.SendAway()
		})
	})
}

func TestF17_bytesForAFormerIncarnationReachNoActor(t *testing.T) {
	t.Parallel()
	try(t, fault{"F17 receiver gone", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		p, held, late := holding(w)
		w.killWorker(p.right)
		again := w.workerAs("again", subjects.ProcID{Mesh: p.right.id.Mesh, Rank: p.right.id.Rank,
			Gen: p.right.id.Gen + 1})
		to := again.spawn(t, recorders{N: 2})
		held.SendAway()
		w.reportDeath(p.right)
		w.settle(2*patience, p.left).wait(t)
		release(t, p.left.proxy, held, connections)
		awaitRequest(t, again, p.left, to[0])
		records, v := w.finish()
		f.judge(t, v)
		require.Zero(t, handledBy(records, again.id))
		f.count("late bytes", int(late))
	})
}

func TestF17_bytesOfADeadSenderAreRefused(t *testing.T) {
	t.Parallel()
	try(t, fault{"F17 sender dead", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		p, held, late := holding(w)
		other := w.worker("other")
		w.killWorker(p.left)
		w.reportDeath(p.left)
		require.Eventually(t, func() bool { // and has handled what it had been given before
			s := p.right.do(t, order{Do: "look", Procs: []subjects.ProcID{p.left.id}}).State
			return s.Dead[0] && s.Info.Queued == 0
		}, patience, time.Millisecond)
		to := p.right.spawn(t, recorders{N: 1})
		known := time.Now()
		release(t, p.left.proxy, held, 0)
		awaitRequest(t, p.right, other, to[0])
		fenced := p.right.look(t).Info.Stats.Fenced
		w.settle(2*patience, p.right).wait(t)
		records, v := w.finish()
		f.judge(t, v)
		stale := 0
		for _, r := range records {
			if r.Kind == history.Handled && strings.HasPrefix(r.Stream.From, p.left.id.String()+"/") &&
				r.At.After(known) {
				stale++
			}
		}
		f.count("late bytes", int(late))
		f.count("packets refused", int(fenced))
		f.count("stale accepted", stale)
		require.Zero(t, stale)
		require.NotZero(t, fenced, "nothing came late, so nothing was shown")
	})
}
