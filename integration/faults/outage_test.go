package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestF11_aServerThatRestartsLosesNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"graceful", "killed"} {
		try(t, fault{"F11 " + how, 1, 200}, func(t *testing.T, seed uint64, f *figures) {
			w := newWorld(t, seed, serverConfig{})
			p := w.pair(load{Mode: []string{post, wait}[seed%2], Senders: 4, Messages: 2500, Rate: 1000})
			w.pause(200*time.Millisecond, 1200*time.Millisecond)
			began := time.Now()
			if how == "killed" {
				w.server.kill()
			} else {
				w.server.end(t)
			}
			w.pause(0, 300*time.Millisecond)
			w.startServer()
			over := time.Now()
			w.settle(2*patience, p.left, p.right).wait(t)
			records, v := w.finish()
			f.judge(t, v)
			require.Zero(t, v.Indeterminate, v)
			f.time("recovery", recovery(records, began, over, p.left.id.String(), p.right.id.String()))
		})
	}
}

func TestF13_aServerThatIsStoppedForAWhileLosesNothing(t *testing.T) {
	t.Parallel()
	server := func(w *world, _ pairing) *child { return w.server }
	try(t, fault{"F13 5 s", 1, 200}, func(t *testing.T, seed uint64, f *figures) {
		stopped(t, seed, f, steady([]string{post, wait}[seed%2], 5*time.Second), 5*time.Second, server)
	})
	try(t, fault{"F13 70 s", 0, 30}, func(t *testing.T, seed uint64, f *figures) {
		stopped(t, seed, f, steady([]string{post, wait}[seed%2], 70*time.Second), 70*time.Second, server)
	})
}
