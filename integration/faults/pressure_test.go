package faults

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/subjects"
)

// callUntil makes a worker call an actor again and again until a channel is closed, at least once,
// and records the time of each call. Each must have an answer.
func (f *figures) callUntil(t *testing.T, name string, from *worker, to subjects.ActorID, over func() bool) {
	t.Helper()
	for {
		r := from.do(t, order{Do: "call", To: to, Endpoint: measure.Name(), Size: 64})
		require.Zero(t, r.Outcome.Code, "%s: %s", name, r.Outcome.Text)
		f.time(name, r.Outcome.Took)
		if over() {
			return
		}
	}
}

// unharmed requires that the server cut no client, and records the memory of the sender.
func (f *figures) unharmed(t *testing.T, w *world, sender *worker, before state) {
	t.Helper()
	slow := w.server.do(t, order{Do: "look"}).Slow
	f.count("cut as slow", slow)
	require.Zero(t, slow)
	for _, one := range w.workers {
		require.Zero(t, one.look(t).Connections["disconnected"], one.name)
	}
	grown := sender.look(t).Peak - before.RSS
	f.sample("sender grew MiB", float64(grown)/(1<<20))
	require.Less(t, grown, memoryBound)
}

// sending reports whether a worker still sends; it asks the worker.
func sending(t *testing.T, one *worker) func() bool {
	return func() bool { return !one.look(t).Sending }
}

func TestF20_slowActorDelaysOnlyItsSender(t *testing.T) {
	try(t, fault{"F20 slow actor", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		left, right, other := w.worker("left"), w.worker("right"), w.worker("other")
		slow := right.spawn(t, recorders{N: 1, Slow: time.Millisecond})
		quick := right.spawn(t, recorders{N: 1})
		before := left.look(t)
		for range 50 {
			f.callUntil(t, "idle call", left, quick[0], func() bool { return true })
		}
		w.begin(left, load{Mode: wait, Senders: 4, Messages: 600, Sizes: []int{2000}}, slow) // more than may wait
		w.begin(other, load{Mode: post, Senders: 4, Messages: 600, Sizes: []int{100}}, slow)
		f.callUntil(t, "call beside it", left, quick[0], sending(t, left))
		w.settle(2*patience, left, other).wait(t)
		f.unharmed(t, w, left, before)
		_, v := w.finish()
		f.judge(t, v)
		require.Zero(t, v.Indeterminate, v)
	})
}

func TestF20_suspendedReaderStaysConnectedAndItsSenderBuffersLittle(t *testing.T) {
	try(t, fault{"F20 stopped reader", 2, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		left, right, other := w.worker("left"), w.worker("right"), w.worker("other")
		to, quick := right.spawn(t, recorders{N: 2}), other.spawn(t, recorders{N: 1})
		f.callUntil(t, "idle call", left, to[0], func() bool { return true }) // the link is open
		before := left.look(t)
		began := time.Now()
		right.signal(t, syscall.SIGSTOP)
		const burst, size = 100 << 20, 64 << 10
		w.begin(left, load{Mode: []string{post, wait}[seed%2], Senders: 4, Messages: burst / size / 4,
			Sizes: []int{size}}, to)
		end := time.Now().Add(3 * time.Second) // before the server loses patience, which it may after 5 s
		f.callUntil(t, "call to others", left, quick[0], func() bool { return time.Now().After(end) })
		right.signal(t, syscall.SIGCONT)
		over := time.Now()
		w.settle(2*patience, left).wait(t)
		f.unharmed(t, w, left, before)
		records, v := w.finish()
		f.judge(t, v)
		f.time("recovery", recovery(records, began, over, right.id.String()))
		require.Zero(t, v.Indeterminate, v)
	})
}

func TestF20_burstIsHandledWhole(t *testing.T) {
	try(t, fault{"F20 burst of 100 MiB", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		left, right := w.worker("left"), w.worker("right")
		to := right.spawn(t, recorders{N: 2})
		before := left.look(t)
		w.begin(left, load{Mode: wait, Senders: 4, Messages: 400, Sizes: []int{64 << 10}}, to)
		f.callUntil(t, "call beside it", left, to[0], sending(t, left))
		w.settle(2*patience, left).wait(t)
		f.unharmed(t, w, left, before)
		_, v := w.finish()
		f.judge(t, v)
		require.Equal(t, v.Sent, v.Handled)
	})
}

// memoryBound bounds the memory of a sender for unsent messages: the cap of a process's outbox, and
// as much again for garbage and the connections.
const memoryBound = 192 << 20
