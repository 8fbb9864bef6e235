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

// flushTimeout bounds a flush or a Close whose context has no deadline, and the
// flush of a Subscribe.
const flushTimeout = 5 * time.Second

// Bus is a process's way to NATS: two connections that live and die together.
type Bus struct {
	data, control *Conn
	log           zerolog.Logger

	done chan struct{} // closed by fail or Close, whichever is first

	mu      sync.Mutex
	over    bool  // done is closed
	err     error // why, nil after Close
	closing sync.Once
	result  error // of the one Close that did the work

	watchers watchers
	values   sync.Map
	passed   atomic.Uint64 // replies that were no answers
}

// Open connects both lanes, or fails with a *ConnectError. It tries once; a
// connection that worked before is then restored for ever.
func Open(ctx context.Context, o Options) (*Bus, error) {
	o = o.withDefaults()
	b := &Bus{log: o.Log, done: make(chan struct{})}
	if err := o.check(); err != nil {
		return nil, &ConnectError{URL: o.where(), Reason: BadOptions, Err: err}
	}
	b.data = newConn(b, LaneData, o)
	b.control = newConn(b, LaneControl, o)
	for _, c := range b.conns() {
		err := context.Cause(ctx)
		if err == nil {
			err = c.dial(ctx, o)
		} else {
			err = &ConnectError{URL: o.where(), Reason: OtherFailure, Hint: o.hint, Err: err}
		}
		if err != nil {
			b.end(err)
			if c == b.control {
				<-b.data.inbox.stopped
			}
			return nil, err
		}
		go c.inbox.pump()
	}
	return b, nil
}

// Data is the lane for messages and casts. It hears nothing of what it
// publishes itself.
func (b *Bus) Data() *Conn { return b.data }

// Control is the lane that data cannot hold up: heartbeats, acks, stops.
func (b *Bus) Control() *Conn { return b.control }

// ValueOr is what those who share the Bus keep under a key: v, when it is the first.
func (b *Bus) ValueOr(key, v any) any {
	kept, _ := b.values.LoadOrStore(key, v)
	return kept
}

// PassedOver counts the replies to requests that were no answers (BUS-8).
func (b *Bus) PassedOver() uint64 { return b.passed.Load() }

// Done is closed when the Bus is closed or broken.
func (b *Bus) Done() <-chan struct{} { return b.done }

// Err says why the Bus broke; nil while it works and after Close.
func (b *Bus) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Close flushes what was published, ends both connections and waits for the
// pumps, for as long as ctx allows (5 s if it has no deadline); a ctx that is
// done already ends them without a flush. Messages still in an Inbox are not
// handled any more. Only the first call works, others wait for it. It must not
// be called from a handler.
func (b *Bus) Close(ctx context.Context) error {
	b.closing.Do(func() {
		ctx, cancel := bounded(ctx, flushTimeout)
		defer cancel()
		b.result = b.flush(ctx)
		b.end(nil)
		for _, c := range b.conns() {
			b.result = errors.Join(b.result, c.awaitEnd(ctx))
		}
	})
	return b.result
}

// flush sends out what is buffered; a lane without a server has nothing to send.
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

// fail breaks the Bus: a part of what it promises is no longer true, and
// going on would hide it. The pumps close the connections.
func (b *Bus) fail(err error) {
	if b.end(err) {
		b.log.Error().Err(err).Msg("bus broken")
	}
}

// end closes done, once, and reports whether it was this call.
func (b *Bus) end(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	b.over, b.err = true, err
	close(b.done)
	return true
}

func (b *Bus) isOver() bool {
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

// Dropped counts, by the name of the lossy Inbox, the messages that had no room in one
// (see Conn.Lossy).
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
