package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/integration/faults/chaos"
)

// Without a fault every message arrives, by each verb.
func TestControl_withoutFaultsHandlesEverything(t *testing.T) {
	for _, mode := range []string{post, wait, call} {
		try(t, fault{"control " + mode, 1, seldom}, func(t *testing.T, seed uint64, f *figures) {
			w := newWorld(t, seed, serverConfig{})
			p := w.pair(load{Mode: mode, Senders: 4, Messages: 1250, Rate: 2500})
			w.settle(patience, p.left, p.right).wait(t)
			_, v := w.finish()
			f.judge(t, v)
			require.Equal(t, v.Sent, v.Handled)
			require.Equal(t, 10_000, v.Sent)
		})
	}
}

// Plain NATS loses messages at a cut: the faults work, and the checker finds them.
func TestControl_cutLosesMessagesOfPlainNATSOnly(t *testing.T) {
	w := newWorld(t, 1, serverConfig{})
	left, right := w.worker("left"), w.worker("right")
	to := right.spawn(t, recorders{N: 1})
	right.do(t, order{Do: "listen"})
	w.begin(left, load{Mode: raw, Senders: 4, Messages: 5000, Rate: 2500}, to)
	settled, cuts := w.settle(patience, left), 0
	for !settled.over() {
		w.pause(300*time.Millisecond, 400*time.Millisecond) // it is back by then
		select {
		case <-right.proxy.Cut(chaos.Cut{Direction: chaos.Down, After: 1 + w.rand.IntN(64<<10), Reset: true}):
			cuts++
		case <-settled.done:
		}
	}
	settled.wait(t)
	right.proxy.Disarm()
	_, v := w.finish()
	require.NotZero(t, cuts)
	require.NotZero(t, v.Lost, v)
	require.NotZero(t, v.Handled)
	t.Logf("NATS alone: %v, cuts=%d", v, cuts)
}
