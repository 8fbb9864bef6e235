package bus

import (
	"context"
	"sync"
)

// connContext is the lifetime of one connection as a context, from connect to disconnect. It ends
// waits that nats.go would keep up until the next connection: a flush begun while the connection is
// lost gets no answer.
type connContext struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
}

func newConnContext() *connContext {
	l := &connContext{}
	l.renew()
	return l
}

// current ends when the connection of now is lost; it may already be.
func (l *connContext) current() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx
}

// endConnection is called on each disconnect.
func (l *connContext) endConnection() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
	l.renew()
}

func (l *connContext) renew() { l.ctx, l.cancel = context.WithCancel(context.Background()) }
