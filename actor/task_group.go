package actor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// taskGroup counts goroutines and lets others wait for them, for as long as a context allows and
// without a goroutine of their own. The zero value is empty.
type taskGroup struct {
	n atomic.Int64

	mu    sync.Mutex // guards waits
	waits []chan struct{}
}

// run starts f on a goroutine of the group.
func (g *taskGroup) run(f func()) {
	g.n.Add(1)
	go func() {
		defer g.done()
		f()
	}()
}

func (g *taskGroup) done() {
	if g.n.Add(-1) > 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.waits {
		close(w)
	}
	g.waits = nil
}

// wait returns true once the group is empty, false if ctx ends before.
func (g *taskGroup) wait(ctx context.Context) bool {
	for {
		w := make(chan struct{})
		g.mu.Lock()
		g.waits = append(g.waits, w)
		g.mu.Unlock()
		if g.n.Load() == 0 { // looked at after w is there: done cannot miss it
			g.removeWaiter(w)
			return true
		}
		select {
		case <-w:
		case <-ctx.Done():
			g.removeWaiter(w)
			return g.n.Load() == 0
		}
	}
}

func (g *taskGroup) removeWaiter(w chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits = slices.DeleteFunc(g.waits, func(x chan struct{}) bool { return x == w })
}
