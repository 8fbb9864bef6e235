package bus

import (
	"context"
	"sync"
)

// life is one connection's life, from connect to disconnect, as a context. It
// ends waits that nats.go would keep up until the next connection: a flush that
// begins while the connection is being lost is answered by nobody.
type life struct {
	mu  sync.Mutex
	ctx context.Context
	die context.CancelFunc
}

func newLife() *life {
	l := &life{}
	l.renew()
	return l
}

// current ends when the connection of now is lost; it may already be.
func (l *life) current() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx
}

// end is called on each disconnect.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.die()
	l.renew()
}

func (l *life) renew() { l.ctx, l.die = context.WithCancel(context.Background()) }
