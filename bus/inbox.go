package bus

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// States of a lossless Inbox: the values of Inbox.overflow.
const (
	inboxFits         int32 = iota
	inboxFull               // a message found no room: the connection is to be left
	inboxReconnecting       // it has been; nats.go has not reported the disconnect so far
)

// Inbox is a queue of several subscriptions, with a pump goroutine that hands its messages to their
// handlers.
type Inbox struct {
	conn     *Conn
	name     string // "" = the connection's own
	queue    chan *nats.Msg
	pumpDone chan struct{} // the pump has returned
	marks    marks

	overflow atomic.Int32  // of the connection's own
	dropped  atomic.Uint64 // by ended subscriptions; of a lossy one
}

func newInbox(c *Conn, name string, room int) *Inbox {
	return &Inbox{conn: c, name: name, queue: make(chan *nats.Msg, room), pumpDone: make(chan struct{})}
}

// Lossy returns a lossy Inbox of the connection, for requests of plain clients and for frequently
// repeated news. It drops and counts messages without room. Its own queue and pump keep it
// independent of other Inboxes. The first call with a name creates the Inbox; it ends with the Bus.
func (c *Conn) Lossy(name string) *Inbox {
	c.lossyMu.Lock()
	defer c.lossyMu.Unlock()
	i := c.lossy[name]
	if i == nil {
		i = newInbox(c, name, min(lossyQueueLen, cap(c.inbox.queue)))
		c.lossy[name] = i
		go i.pump()
	}
	return i
}

// inboxes returns the connection's own Inbox, and then the lossy ones.
func (c *Conn) inboxes() []*Inbox {
	c.lossyMu.Lock()
	defer c.lossyMu.Unlock()
	return slices.AppendSeq([]*Inbox{c.inbox}, maps.Values(c.lossy))
}

// Dropped counts the messages dropped by a lossy Inbox.
func (i *Inbox) Dropped() uint64 {
	n := i.dropped.Load()
	for _, s := range i.conn.subs.all() {
		if s.inbox == i {
			n += s.dropped()
		}
	}
	return n
}

// onOverflow handles a message without room. For the connection's own Inbox the connection counts
// as lost. The Inbox leaves it as soon as half of the queue has been handled, because a new
// connection would fill the queue again at once.
func (i *Inbox) onOverflow(subject string) {
	if i.name != "" {
		i.conn.sampledLog.Warn().Str("inbox", i.name).Str("subject", subject).Int("holds", cap(i.queue)).
			Msg("bus inbox full, messages dropped")
		return
	}
	if i.overflow.CompareAndSwap(inboxFits, inboxFull) {
		i.conn.sampledLog.Error().Str("subject", subject).Int("holds", cap(i.queue)).
			Msg("bus inbox full, messages lost: reconnecting")
	}
	i.reconnectWhenDrained()
}

// reconnectWhenDrained leaves the connection after an overflow, once there is room (BUS-2).
func (i *Inbox) reconnectWhenDrained() {
	if len(i.queue) <= cap(i.queue)/2 && i.overflow.CompareAndSwap(inboxFull, inboxReconnecting) {
		forceReconnect(i.conn.nc, i.conn.log)
	}
}

// pump hands the queue to the handlers, one message after the other. The connection's own pump
// closes the connection when the Bus is over. A panic in a handler breaks the Bus instead of the
// process (BUS-5).
func (i *Inbox) pump() {
	c := i.conn
	defer close(i.pumpDone)
	if i.name == "" {
		defer c.nc.Close()
	}
	defer func() {
		if p := recover(); p != nil {
			c.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("bus handler panicked")
			c.bus.fail(fmt.Errorf("%w on the %s connection: %v", ErrHandlerPanic, c.name, p))
		}
	}()
	for {
		select {
		case <-c.bus.done:
			return
		case m := <-i.queue:
			if m.Sub == nil {
				i.marks.run(m)
			} else if s := c.subs.of(m.Sub); s != nil {
				s.handle(fromNATS(m))
			}
			if i.overflow.Load() == inboxFull {
				i.reconnectWhenDrained()
			}
		}
	}
}

// awaitClosed waits for the pumps and for the last event of nats.go.
func (c *Conn) awaitClosed(ctx context.Context) error {
	ends := []<-chan struct{}{c.closed, c.renewed}
	for _, i := range c.inboxes() {
		ends = append(ends, i.pumpDone, i.marks.stop())
	}
	for _, end := range ends {
		select {
		case <-end:
		case <-ctx.Done():
			return fmt.Errorf("bus: close the %s connection: %w", c.name, ctx.Err())
		}
	}
	return nil
}
