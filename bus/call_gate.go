package bus

import (
	"context"
	"sync"
)

// callGate keeps calls that need one connection apart from its renewal. A renewal waits for calls
// under way, and holds up further ones. The zero callGate is open.
type callGate struct {
	mu     sync.Mutex
	calls  int           // under way
	closed chan struct{} // closed when the gate opens; nil: it is open
	idle   chan struct{} // closed when the last call leaves; nil: no renewal waits
}

// enter begins a call, when no renewal is under way.
func (g *callGate) enter() {
	g.mu.Lock()
	for g.closed != nil {
		opens := g.closed
		g.mu.Unlock()
		<-opens // a renewal is bounded
		g.mu.Lock()
	}
	g.calls++
	g.mu.Unlock()
}

// leave ends a call.
func (g *callGate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	if g.calls == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// close holds up calls, and waits for those under way until ctx ends. The caller opens the gate.
func (g *callGate) close(ctx context.Context) (open func()) {
	g.mu.Lock()
	g.closed = make(chan struct{})
	idle := make(chan struct{})
	if g.calls > 0 {
		g.idle = idle
	} else {
		close(idle)
	}
	g.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(g.closed)
		g.closed = nil
		g.idle = nil
	}
}
