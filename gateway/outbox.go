package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
)

const (
	confirmInterval     = 50 * time.Millisecond // the server is asked whether it has all answers so far
	maxUnconfirmedBytes = 16 << 20              // bytes of unconfirmed answers; others are not sent again
)

// sentAnswer is an answer that may not have reached the server.
type sentAnswer struct {
	r    request
	m    bus.Msg
	conn uint64 // the connection
}

// outbox keeps the newest answers, to say them again when their connection is lost.
type outbox struct {
	mu          sync.Mutex // guards all below
	unconfirmed []sentAnswer
	size        int
	wake        chan struct{} // holds one when there are any
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

func (o *outbox) add(s sentAnswer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.size + len(s.m.Data) + headerReserve; n <= maxUnconfirmedBytes {
		o.unconfirmed = append(o.unconfirmed, s)
		o.size = n
	}
	select {
	case o.wake <- struct{}{}:
	default: // it is known already
	}
}

func (o *outbox) drain() []sentAnswer {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.unconfirmed
	o.unconfirmed = nil
	o.size = 0
	return all
}

// isRepeatable reports whether a client ignores a repeated message. In a stream, each message of a
// rank counts.
func (r request) isRepeatable(m bus.Msg) bool {
	return !r.wantsStream || m.Header.Get(actor.HeaderRank) == ""
}

// publishConfirmed is publish, and again when the connection is lost before the server has the
// message.
func (g *Gateway) publishConfirmed(r request, m bus.Msg) error {
	on := g.data.ConnectionCount()
	err := g.publish(r, m)
	if err == nil && r.isRepeatable(m) {
		g.outbox.add(sentAnswer{r, m, on})
	}
	return err
}

// confirm runs until ctx ends.
func (g *Gateway) confirm(ctx context.Context) {
	every := time.NewTicker(confirmInterval)
	defer every.Stop()
	for {
		select {
		case <-g.outbox.wake:
		case <-ctx.Done():
			return
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		g.confirmAll(ctx, g.outbox.drain())
	}
}

func (g *Gateway) confirmAll(ctx context.Context, all []sentAnswer) {
	err := g.data.Flush(ctx)
	on := g.data.ConnectionCount()
	for _, s := range all {
		switch {
		case time.Now().After(s.r.publishBy):
		case s.conn != on:
			if err := g.publishConfirmed(s.r, s.m); err != nil {
				g.sampledLog.Warn().Err(err).Str("to", s.r.reply).Msg("cannot confirm an answer, which may be lost")
			}
		case err != nil: // it will be seen on which connection the next one is
			g.outbox.add(s)
		}
	}
}
