package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestF11_serverRestartLosesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault       fault
		end         func(*child, *testing.T)
		least, most time.Duration // that it is away
	}{
		{fault{"F11 graceful", 1, often}, (*child).end, 0, 300 * time.Millisecond},
		{fault{"F11 killed", 1, often}, func(c *child, _ *testing.T) { c.kill() }, 0, 300 * time.Millisecond},
		// By then clients retry every two seconds, so one returns long before another.
		{fault{"F11 away for 3 to 6 s", 1, often}, (*child).end, 3 * time.Second, 6 * time.Second},
	} {
		try(t, c.fault, func(t *testing.T, seed uint64, f *figures) {
			w := newWorld(t, seed, serverConfig{})
			p := w.pair(steady([]string{post, wait}[seed%2], c.most))
			w.pause(200*time.Millisecond, 1200*time.Millisecond)
			began := time.Now()
			c.end(w.server, t)
			w.pause(c.least, c.most)
			w.startServer()
			over := time.Now()
			w.settle(2*patience, p.left, p.right).wait(t)
			records, v := w.finish()
			f.judge(t, v)
			f.time("recovery", recovery(records, began, over, p.left.id.String(), p.right.id.String()))
			require.Zero(t, v.Indeterminate, v)
		})
	}
}

func TestF13_suspendedServerLosesNothing(t *testing.T) {
	t.Parallel()
	server := func(w *world, _ pairing) *child { return w.server }
	try(t, fault{"F13 5 s", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		stopped(t, seed, f, steady([]string{post, wait}[seed%2], 5*time.Second), 5*time.Second, server)
	})
	try(t, fault{"F13 70 s", 0, seldom}, func(t *testing.T, seed uint64, f *figures) {
		stopped(t, seed, f, steady([]string{post, wait}[seed%2], 70*time.Second), 70*time.Second, server)
	})
}
