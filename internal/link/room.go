package link

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// SendWait is Send with a wait for room, at most until ctx ends.
func (l *Links) SendWait(ctx context.Context, to *Target, e *wire.Envelope, m Mark, until Instant) error {
	ttl, began := e.TTL, time.Now()
	for {
		err := l.Send(to, e, m, until)
		if full, ok := errors.AsType[*Error](err); err == nil || !ok || full.Reason != QueueFull {
			return err
		}
		if err := l.awaitRoom(ctx, to.Peer, err); err != nil {
			return err
		}
		if ttl > 0 {
			e.TTL = max(time.Millisecond, ttl-time.Since(began))
		}
	}
}

// awaitRoom waits until there may be room.
func (l *Links) awaitRoom(ctx context.Context, p *Peer, why error) error {
	l.mu.Lock()
	room := l.roomWaiters[p]
	if room == nil {
		room = make(chan struct{})
		l.roomWaiters[p] = room
	}
	if !p.out.roomWanted { // it came meanwhile
		l.signalRoom(p)
	}
	l.mu.Unlock()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return why
	case <-l.done:
		return errClosed
	}
}

// signalRoom wakes senders waiting for room. The lock is held.
func (l *Links) signalRoom(p *Peer) {
	if room := l.roomWaiters[p]; room != nil {
		close(room)
		delete(l.roomWaiters, p)
	}
}
