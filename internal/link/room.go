package link

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// SendWait is Send that waits for room, at most until ctx ends.
func (l *Links) SendWait(ctx context.Context, to *Target, e *wire.Envelope, m Mark, until Instant) error {
	ttl, began := e.TTL, time.Now()
	for {
		err := l.Send(to, e, m, until)
		if full, ok := errors.AsType[*Error](err); err == nil || !ok || full.Reason != Full {
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
	room := l.rooms[p]
	if room == nil {
		room = make(chan struct{})
		l.rooms[p] = room
	}
	if !p.out.wanted { // it came meanwhile
		l.makeRoom(p)
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

// makeRoom lets those look again who wait for room. The lock is held.
func (l *Links) makeRoom(p *Peer) {
	if room := l.rooms[p]; room != nil {
		close(room)
		delete(l.rooms, p)
	}
}
