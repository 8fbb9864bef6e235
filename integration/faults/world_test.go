package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/integration/faults/chaos"
	"github.com/castnet-io/castnet/integration/faults/history"
	"github.com/castnet-io/castnet/subjects"
)

// world is a NATS server, and workers behind proxies of their own, with their histories.
type world struct {
	*testing.T
	rand    *rand.Rand
	seed    uint64
	dir     string
	history *history.Log // of the test itself
	config  serverConfig
	server  *child
	others  []*child // more servers
	addr    string   // of the server
	workers []*worker
	witness *actor.Proc // nil: not needed so far
}

// worker is a child with a proc in it.
type worker struct {
	*child
	id    subjects.ProcID
	proxy *chaos.Proxy
}

func newWorld(t *testing.T, seed uint64, c serverConfig) *world {
	t.Helper()
	w := &world{T: t, rand: rand.New(rand.NewPCG(seed, 0)), seed: seed, dir: t.ArtifactDir(), config: c}
	var err error
	w.history, err = history.Create(filepath.Join(w.dir, "test"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.history.Close()) })
	w.startServer()
	return w
}

// startServer starts the server, each time on the same port.
func (w *world) startServer() {
	w.Helper()
	if w.config.Port == 0 {
		w.config.Port = reservePort(w.T)
	}
	w.server, _ = start(w.T, "server", "server", w.dir, w.config)
	w.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(w.config.Port))
}

// worker starts a worker under a name.
func (w *world) worker(name string) *worker {
	w.Helper()
	host, err := subjects.NewHostID(name)
	require.NoError(w, err)
	return w.workerAs(name, host.Proc())
}

// workerAs starts a worker with an ID.
func (w *world) workerAs(name string, id subjects.ProcID) *worker {
	w.Helper()
	return w.workerIn(name, id, nil)
}

// workerIn starts a worker with ranks of a mesh.
func (w *world) workerIn(name string, id subjects.ProcID, place *cast.Placement) *worker {
	w.Helper()
	p, err := chaos.Start(w.addr)
	require.NoError(w, err)
	w.Cleanup(p.Close)
	c, _ := start(w.T, "worker", name, w.dir,
		workerConfig{ID: id, URL: "nats://" + p.Addr(), History: filepath.Join(w.dir, name), Place: place})
	one := &worker{c, id, p}
	w.workers = append(w.workers, one)
	return one
}

// spawn makes recorders in a worker.
func (one *worker) spawn(t *testing.T, r recorders) []subjects.ActorID {
	t.Helper()
	return one.do(t, order{Do: "spawn", Recorders: r}).Actors
}

func (one *worker) look(t *testing.T) state {
	t.Helper()
	return one.do(t, order{Do: "look"}).State
}

// pairing is two workers with messages for each other.
type pairing struct{ left, right *worker }

// pair starts two workers with recorders, and starts the load of both.
func (w *world) pair(l load) pairing {
	w.Helper()
	p := pairing{w.worker("left"), w.worker("right")}
	to := [2][]subjects.ActorID{p.left.spawn(w.T, recorders{N: 2}), p.right.spawn(w.T, recorders{N: 2})}
	w.begin(p.left, l, to[1])
	w.begin(p.right, l, to[0])
	return p
}

// begin starts the load of a worker.
func (w *world) begin(one *worker, l load, to []subjects.ActorID) {
	w.Helper()
	l.To, l.Seed = to, w.rand.Uint64()
	one.do(w.T, order{Do: "load", Load: l})
}

// killWorker ends a worker by SIGKILL and records that.
func (w *world) killWorker(one *worker) {
	w.Helper()
	one.kill()
	require.NoError(w, w.history.Add(
		history.Record{Kind: history.Ended, Stream: history.Stream{To: one.id.String()}}))
	w.workers = slices.DeleteFunc(w.workers, func(other *worker) bool { return other == one })
}

// reportDeath publishes the death of a process in place of its host agent.
func (w *world) reportDeath(one *worker) {
	w.Helper()
	if w.witness == nil {
		w.witness = w.newWitness()
	}
	w.witness.Emit(actor.Event{
		Kind: actor.KindProc, Status: string(actor.Failed), Mesh: one.id.Mesh.String(), Rank: int(one.id.Rank),
		Gen:    int(one.id.Gen),
		Signal: int(syscall.SIGKILL), Reason: "killed by the test", At: time.Now(),
	})
}

// newWitness is a proc of the test itself, without a proxy.
func (w *world) newWitness() *actor.Proc {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	b, err := bus.Open(ctx, bus.Options{URL: "nats://" + w.addr, Name: "witness"})
	require.NoError(w, err)
	id, err := subjects.NewHostID("witness")
	require.NoError(w, err)
	p, err := actor.NewProc(ctx, actor.Options{
		ID: id.Proc(), Principal: subjects.System.Principal("witness"), Bus: b,
	})
	require.NoError(w, err)
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(w, p.Close(ctx))
		require.NoError(w, b.Close(ctx))
	})
	return p
}

// settling waits for workers to settle, in the background.
type settling struct {
	done chan struct{} // closed once err is set
	err  error
}

// settle starts to wait for the workers.
func (w *world) settle(within time.Duration, workers ...*worker) *settling {
	s := &settling{done: make(chan struct{})}
	errs := make([]error, len(workers))
	var asked sync.WaitGroup
	for i, one := range workers {
		asked.Go(func() { _, errs[i] = one.ask(order{Do: "settle", Within: within}, within+patience) })
	}
	go func() {
		asked.Wait()
		s.err = errors.Join(errs...)
		close(s.done)
	}()
	w.Cleanup(func() {
		for _, one := range workers {
			if !s.over() {
				_ = one.cmd.Process.Kill() // it has ended already, or does not answer any more
			}
		}
		<-s.done
	})
	return s
}

// over reports whether all have settled.
func (s *settling) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// wait waits until all have settled.
func (s *settling) wait(t *testing.T) {
	t.Helper()
	<-s.done
	require.NoError(t, s.err)
}

// pause waits for a random time between two.
func (w *world) pause(least, most time.Duration) {
	time.Sleep(least + time.Duration(w.rand.Int64N(int64(most-least)+1))) // the fault is to fall anywhere
}

// finish ends the workers and the server in order, and judges all histories.
func (w *world) finish() ([]history.Record, history.Verdict) {
	w.Helper()
	for _, one := range w.workers {
		one.end(w.T)
	}
	for _, server := range append(w.others, w.server) {
		server.end(w.T)
	}
	records, err := history.Read(w.dir)
	require.NoError(w, err)
	return records, history.Check(records)
}

// overtime is the time from the deadline of the last message of a stream to a later fate.
func overtime(records []history.Record, deadline time.Duration) (worst time.Duration) {
	last := map[history.Stream]time.Time{}
	for _, r := range records {
		if r.Kind == history.Sent && r.At.After(last[r.Stream]) {
			last[r.Stream] = r.At
		}
	}
	for _, r := range records {
		if sent, ok := last[r.Stream]; ok && (r.Kind == history.Undeliverable || r.Kind == history.Indeterminate) {
			worst = max(worst, r.At.Sub(sent.Add(deadline)))
		}
	}
	return worst
}

// inTime requires each fate soon after its deadline (DEL-1): twice the longest time of an answer,
// with the delays of a busy machine.
func (f *figures) inTime(t *testing.T, records []history.Record, deadline time.Duration) {
	t.Helper()
	late := overtime(records, deadline)
	f.time("last fate after deadline", late)
	require.Less(t, late, 10*time.Second)
}

// recovery is the time from the end of a fault to the next messages at receivers with some ID
// prefixes. It counts to the end of each receiver's longest silence since the fault.
func recovery(records []history.Record, began, over time.Time, receivers ...string) time.Duration {
	worst := time.Duration(0)
	for _, prefix := range receivers {
		last, longest, end := began, time.Duration(0), over
		for _, r := range records {
			if r.Kind != history.Handled || !strings.HasPrefix(r.Note, prefix) || r.At.Before(began) {
				continue
			}
			if gap := r.At.Sub(last); gap > longest {
				longest, end = gap, r.At
			}
			last = r.At
		}
		worst = max(worst, end.Sub(over))
	}
	return worst
}
