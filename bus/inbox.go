package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
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
	for _, s := range i.conn.subscriptions() {
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
		i.conn.forceReconnect(i.conn.nc)
	}
}

// Sub is a subscription.
type Sub struct {
	conn    *Conn
	inbox   *Inbox
	natsSub *nats.Subscription
	subject string
	group   string // "" = none
	handle  func(Msg)
}

// Subscribe calls h for each message on subject, with or without wildcards. When it returns, the
// server has the interest (BUS-3). h runs on the connection's one pump, in publish order across all
// subjects of the connection (BUS-1). h must not block, because all other subscriptions of the
// connection wait for it. Each Subscribe gets each message, even if several use one subject.
func (c *Conn) Subscribe(subject string, h func(Msg)) (*Sub, error) {
	return c.inbox.Subscribe(subject, h)
}

// SubscribeGroup is Subscribe as a member of a queue group: the server sends each message to one
// member. There is no order between members.
func (c *Conn) SubscribeGroup(subject, group string, h func(Msg)) (*Sub, error) {
	return c.inbox.SubscribeGroup(subject, group, h)
}

// Subscribe is [Conn.Subscribe] with this Inbox.
func (i *Inbox) Subscribe(subject string, h func(Msg)) (*Sub, error) {
	return i.conn.subscribe(&Sub{conn: i.conn, inbox: i, subject: subject, handle: h})
}

// SubscribeGroup is [Conn.SubscribeGroup] with this Inbox.
func (i *Inbox) SubscribeGroup(subject, group string, h func(Msg)) (*Sub, error) {
	if group == "" || strings.ContainsAny(group, " \t\r\n") {
		return nil, fmt.Errorf("%w: queue group %q of %q: want a name without blanks",
			ErrBadSubject, group, subject)
	}
	return i.conn.subscribe(&Sub{conn: i.conn, inbox: i, subject: subject, group: group, handle: h})
}

func (c *Conn) subscribe(s *Sub) (*Sub, error) {
	if len(s.subject)+len(s.group) > maxControlLine {
		return nil, subjectTooLong(s.subject, s.group)
	}
	// Register before the server learns of it: the denial may come first.
	forget := c.denials.expect(s)
	defer forget()
	if err := c.register(s); err != nil {
		return nil, c.translate(err, fmt.Sprintf("subscribe to %q", s.subject))
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := c.confirm(ctx, s); err != nil {
		if left := s.Unsubscribe(); left != nil {
			err = errors.Join(err, left)
		}
		return nil, err
	}
	return s, nil
}

// register makes the subscription known to the pump. Its first message may be
// in the Inbox before ChanSubscribe returns: subMu makes the pump wait for us.
func (c *Conn) register(s *Sub) error {
	c.subMu.Lock()
	defer c.subMu.Unlock()
	ns, err := c.nc.ChanQueueSubscribe(s.subject, s.group, s.inbox.queue)
	if err != nil {
		return err
	}
	s.natsSub = ns
	c.subs[ns] = s
	return nil
}

// confirm waits until the server has taken the subscription, or denied it.
func (c *Conn) confirm(ctx context.Context, s *Sub) error {
	if err := c.Flush(ctx); err != nil {
		return err
	}
	return c.denials.check(ctx, s, c.nc.LastError)
}

// Unsubscribe ends the subscription. Its handler gets no more messages, except in a call already
// under way. A second call does nothing.
func (s *Sub) Unsubscribe() error {
	if !s.conn.forget(s) {
		return nil
	}
	s.inbox.dropped.Add(s.dropped())
	err := s.natsSub.Unsubscribe()
	if err == nil || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) {
		return nil
	}
	return s.conn.translate(err, fmt.Sprintf("unsubscribe from %q", s.subject))
}

// dropped counts messages without room in the Inbox, while the subscription lives.
func (s *Sub) dropped() uint64 {
	n, err := s.natsSub.Dropped()
	if err != nil {
		return 0
	}
	return uint64(n)
}

// Drain is Unsubscribe after the handler has had every message that the server had sent to the
// subscription; other members of its group get none of those. It waits until ctx ends (5 s without
// a deadline), and drops the remaining messages. Without a server no more messages come. Do not
// call it from a handler.
func (s *Sub) Drain(ctx context.Context) error {
	c := s.conn
	if c.subOf(s.natsSub) == nil {
		return nil
	}
	ctx, cancel := bounded(ctx, flushTimeout)
	defer cancel()
	end := s.natsSub.Drain   //nolint:forbidigo // nothing else of nats.go keeps what was sent; no bubble drains
	if !c.nc.IsConnected() { // nats.go would subscribe again on the next connection
		end = s.natsSub.Unsubscribe
	}
	var err error
	if end() == nil { // else the connection is closed
		err = c.Flush(ctx) // the server has sent everything
	}
	handed := make(chan struct{})
	s.inbox.afterReceived(func() { close(handed) })
	select {
	case <-handed:
	case <-c.bus.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	left := s.Unsubscribe()
	if err == nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrDisconnected) { // nothing more comes
		return left
	}
	return errors.Join(fmt.Errorf("bus: drain %q: %w", s.subject, err), left)
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
			} else if s := c.subOf(m.Sub); s != nil {
				s.handle(fromNATS(m))
			}
			if i.overflow.Load() == inboxFull {
				i.reconnectWhenDrained()
			}
		}
	}
}

// subOf returns the live subscription; nil if it has been unsubscribed.
func (c *Conn) subOf(ns *nats.Subscription) *Sub {
	c.subMu.Lock()
	defer c.subMu.Unlock()
	return c.subs[ns]
}

// forget reports whether a subscription was live. It is no longer.
func (c *Conn) forget(s *Sub) bool {
	c.subMu.Lock()
	defer c.subMu.Unlock()
	live := c.subs[s.natsSub] != nil
	delete(c.subs, s.natsSub)
	return live
}

// subscriptions are the live ones.
func (c *Conn) subscriptions() []*Sub {
	c.subMu.Lock()
	defer c.subMu.Unlock()
	return slices.Collect(maps.Values(c.subs))
}

// awaitClosed waits for the pumps and for the last event of nats.go.
func (c *Conn) awaitClosed(ctx context.Context) error {
	ends := []<-chan struct{}{c.closed}
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
