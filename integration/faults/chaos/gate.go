package chaos

import "sync"

// gate lets through while it is open, as it is at first.
type gate struct {
	mu      sync.Mutex
	passage chan struct{} // closed while the gate is open
}

func newGate() *gate {
	g := &gate{passage: make(chan struct{})}
	close(g.passage)
	return g
}

func (g *gate) isOpen() bool {
	select {
	case <-g.passage:
		return true
	default:
		return false
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		close(g.passage)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() {
		g.passage = make(chan struct{})
	}
}

// wait returns true when the gate is open, false when over is closed before.
func (g *gate) wait(over <-chan struct{}) bool {
	g.mu.Lock()
	passage := g.passage
	g.mu.Unlock()
	select {
	case <-passage:
		return true
	default:
	}
	select {
	case <-passage:
		return true
	case <-over:
		return false
	}
}
