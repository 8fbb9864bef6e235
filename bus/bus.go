package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// flushTimeout bounds a flush or a Close without a context deadline, and the flush of a Subscribe.
const flushTimeout = 5 * time.Second

// Bus is a process's access to NATS: two connections that live and die together.
type Bus struct {
	data, control *Conn
	log           zerolog.Logger

	done chan struct{} // closed by fail or Close, whichever is first

	mu        sync.Mutex
	ended     bool        // done is closed
	err       error       // why, nil after Close
	values    map[any]any // shared by the users of the Bus
	closeOnce sync.Once
	closeErr  error // of the first Close

	renewing       sync.Mutex // one connection at a time renews its credentials
	watchers       stateWatchers
	ignoredReplies atomic.Uint64 // replies that were no answers
}

// Open makes both connections, or fails with a *ConnectError. It tries once; a connection that
// worked before is then restored for ever.
func Open(ctx context.Context, o Options) (*Bus, error) {
	o = o.withDefaults()
	b := &Bus{log: o.Log, done: make(chan struct{}), values: map[any]any{}}
	if err := o.check(); err != nil {
		return nil, &ConnectError{URL: o.where(), Reason: BadOptions, Err: err}
	}
	b.data = newConn(b, DataConn, o)
	b.control = newConn(b, ControlConn, o)
	for _, c := range b.conns() {
		err := context.Cause(ctx)
		if err == nil {
			err = c.dial(ctx, o)
		} else {
			err = &ConnectError{URL: o.where(), Reason: OtherFailure, Hint: o.hint, Err: err}
		}
		if err != nil {
			b.shutdown(err)
			if c == b.control {
				<-b.data.inbox.pumpDone
				<-b.data.renewed
			}
			return nil, err
		}
		go c.inbox.pump()
		if c.renews {
			go c.renew(o)
		} else {
			close(c.renewed)
		}
	}
	return b, nil
}

// Data is the connection for messages and casts. It does not receive its own messages.
func (b *Bus) Data() *Conn { return b.data }

// Control is the connection for heartbeats, acks and stops. Data cannot delay it.
func (b *Bus) Control() *Conn { return b.control }

// LoadOrStore returns the value that users of the Bus share under a key: v if there was none.
func (b *Bus) LoadOrStore(key, v any) any {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kept, ok := b.values[key]; ok {
		return kept
	}
	b.values[key] = v
	return v
}

// IgnoredReplies counts the replies to requests that were no answers (BUS-8).
func (b *Bus) IgnoredReplies() uint64 { return b.ignoredReplies.Load() }

// Done is closed when the Bus is closed or broken.
func (b *Bus) Done() <-chan struct{} { return b.done }

// Err returns the reason of a broken Bus; nil while it works and after Close.
func (b *Bus) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Close flushes published messages, ends both connections and waits for the pumps, until ctx ends
// (5 s without a deadline). If ctx has already ended, Close does not flush. Messages still in an
// Inbox are not handled any more. Only the first call closes; others wait for it. Do not call it
// from a handler.
func (b *Bus) Close(ctx context.Context) error {
	b.closeOnce.Do(func() {
		ctx, cancel := bounded(ctx, flushTimeout)
		defer cancel()
		b.closeErr = b.flush(ctx)
		b.shutdown(nil)
		for _, c := range b.conns() {
			b.closeErr = errors.Join(b.closeErr, c.awaitClosed(ctx))
		}
	})
	return b.closeErr
}

// flush sends the buffered data; a connection without a server has none.
func (b *Bus) flush(ctx context.Context) error {
	var errs []error
	for _, c := range b.conns() {
		err := c.Flush(ctx)
		if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrDisconnected) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// fail breaks the Bus: one of its promises no longer holds, and going on would hide that. The pumps
// close the connections.
func (b *Bus) fail(err error) {
	if b.shutdown(err) {
		b.log.Error().Err(err).Msg("bus broken")
	}
}

// shutdown closes done once, and reports whether this call did.
func (b *Bus) shutdown(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return false
	}
	b.ended = true
	b.err = err
	close(b.done)
	return true
}

func (b *Bus) isEnded() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// closedErr is ErrClosed with the reason, if there is one.
func (b *Bus) closedErr() error {
	if err := b.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return ErrClosed
}

// Dropped counts, by name, the messages dropped by each lossy Inbox (see Conn.Lossy).
func (b *Bus) Dropped() map[string]uint64 {
	all := map[string]uint64{}
	for _, c := range b.conns() {
		for _, i := range c.inboxes()[1:] {
			all[i.name] += i.Dropped()
		}
	}
	return all
}

func (b *Bus) conns() [2]*Conn { return [2]*Conn{b.data, b.control} }

// bounded gives ctx a deadline if it has none: no remote wait is without one.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
