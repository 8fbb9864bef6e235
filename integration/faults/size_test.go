package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const defaultMaxPayload = 1 << 20

// around are sizes of payloads just below and above a limit, with or without their frames.
func around(limit int) []int {
	sizes := []int{limit - 1, limit, limit + 1}
	for d := range 64 {
		sizes = append(sizes, limit-8*d)
	}
	return sizes
}

// lostConnections counts the disconnects, for good or for a while.
func lostConnections(t *testing.T, w *world) int {
	n := 0
	for _, one := range w.workers {
		c := one.look(t).Connections
		n += c["closed"] + c["disconnected"]
	}
	return n
}

func TestF22_messagesAroundTheServerLimitArriveWhole(t *testing.T) {
	t.Parallel()
	try(t, fault{"F22 limit -1/0/+1", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		left, right := w.worker("left"), w.worker("right")
		sizes := around(defaultMaxPayload)
		w.begin(left, load{Mode: wait, Senders: 1, Messages: len(sizes), Sizes: sizes},
			right.spawn(t, recorders{N: 1}))
		w.settle(2*patience, left).wait(t)
		require.Zero(t, lostConnections(t, w))
		_, v := w.finish()
		f.judge(t, v)
		require.Equal(t, v.Sent, v.Handled)
	})
}

func TestF22_messageOf64MiBArrivesWholeOrIsRefused(t *testing.T) {
	t.Parallel()
	try(t, fault{"F22 64 MiB", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		left, right := w.worker("left"), w.worker("right")
		const most = 64 << 20
		sizes := []int{most / 2, 100, most - 64<<10, most, most + 1, 100}
		w.begin(left, load{Mode: wait, Senders: 1, Messages: len(sizes), Sizes: sizes},
			right.spawn(t, recorders{N: 1}))
		w.settle(2*patience, left).wait(t)
		require.Zero(t, lostConnections(t, w))
		_, v := w.finish()
		f.judge(t, v)
		require.Zero(t, v.Indeterminate, v)
		require.GreaterOrEqual(t, v.Handled, 4, "slightly smaller ones are handled")
	})
}

func TestF22_serversWithDifferentLimitsFormACluster(t *testing.T) {
	t.Parallel()
	try(t, fault{"F22 mixed limits", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w, other := newCluster(t, seed, defaultMaxPayload, 64<<10)
		left := w.worker("left")
		w.addr = other
		right := w.worker("right")
		toRight, toLeft := right.spawn(t, recorders{N: 1}), left.spawn(t, recorders{N: 1})
		sizes := append(around(64<<10), around(defaultMaxPayload)...)
		w.begin(left, load{Mode: wait, Senders: 1, Messages: len(sizes), Sizes: sizes}, toRight)
		w.begin(right, load{Mode: wait, Senders: 1, Messages: len(sizes), Sizes: sizes}, toLeft)
		w.settle(2*patience, left, right).wait(t)
		require.Zero(t, lostConnections(t, w))
		_, v := w.finish()
		f.judge(t, v)
		require.Equal(t, v.Sent, v.Handled)
	})
}

func TestF22_limitThatShrinksAtARestartLosesNothing(t *testing.T) {
	t.Parallel()
	try(t, fault{"F22 limit shrinks", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{MaxPayload: defaultMaxPayload})
		p := w.pair(load{Mode: wait, Senders: 2, Messages: 200, Rate: 100,
			Sizes: []int{900 << 10, 100, 300 << 10, 5000, 70 << 10}})
		w.pause(200*time.Millisecond, 800*time.Millisecond)
		began := time.Now()
		w.server.kill()
		w.config.MaxPayload = 64 << 10
		w.startServer()
		over := time.Now()
		w.settle(2*patience, p.left, p.right).wait(t)
		records, v := w.finish()
		f.judge(t, v)
		f.time("recovery", recovery(records, began, over, p.left.id.String(), p.right.id.String()))
		require.Zero(t, v.Indeterminate, v)
	})
}
