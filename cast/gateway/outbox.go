package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
)

const (
	confirmEvery = 50 * time.Millisecond // the server is asked whether it has all answers so far
	maxSent      = 16 << 20              // bytes of answers that wait for that; others are not said again
)

// sent is an answer that the server may not have.
type sent struct {
	r  request
	m  bus.Msg
	on uint64 // the connection
}

// outbox keeps the newest answers, to say them again when their connection is lost.
type outbox struct {
	mu   sync.Mutex // guards all below
	sent []sent
	size int
	news chan struct{} // holds one when there are any
}

func newOutbox() *outbox { return &outbox{news: make(chan struct{}, 1)} }

func (o *outbox) add(s sent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.size + len(s.m.Data) + headerRoom; n <= maxSent {
		o.sent, o.size = append(o.sent, s), n
	}
	select {
	case o.news <- struct{}{}:
	default: // it is known already
	}
}

func (o *outbox) take() []sent {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.sent
	o.sent, o.size = nil, 0
	return all
}

// maySayAgain reports whether who hears a message twice takes it for noise. A rank's in a stream counts.
func (r request) maySayAgain(m bus.Msg) bool {
	return !r.streams || m.Header.Get(actor.HeaderRank) == ""
}

// publishSafely is publish, and again when the connection is lost before the server has the message.
func (g *Gateway) publishSafely(r request, m bus.Msg) error {
	on := g.data.Connection()
	err := g.publish(r, m)
	if err == nil && r.maySayAgain(m) {
		g.outbox.add(sent{r, m, on})
	}
	return err
}

// confirm runs until ctx ends.
func (g *Gateway) confirm(ctx context.Context) {
	every := time.NewTicker(confirmEvery)
	defer every.Stop()
	for {
		select {
		case <-g.outbox.news:
		case <-ctx.Done():
			return
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		g.confirmAll(ctx, g.outbox.take())
	}
}

func (g *Gateway) confirmAll(ctx context.Context, all []sent) {
	err := g.data.Flush(ctx)
	on := g.data.Connection()
	for _, s := range all {
		switch {
		case time.Now().After(s.r.until):
		case s.on != on:
			if err := g.publishSafely(s.r, s.m); err != nil {
				g.loud.Warn().Err(err).Str("to", s.r.reply).Msg("an answer may be lost")
			}
		case err != nil: // it will be seen on which connection the next one is
			g.outbox.add(s)
		}
	}
}
