package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

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
	if err := c.subs.subscribe(c.nc, s); err != nil {
		return nil, c.translate(err, fmt.Sprintf("subscribe to %q", s.subject))
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := c.Flush(ctx)
	if err == nil {
		err = c.denials.check(ctx, s, c.nc.LastError)
	}
	if err != nil {
		if left := s.Unsubscribe(); left != nil {
			err = errors.Join(err, left)
		}
		return nil, err
	}
	return s, nil
}

// Unsubscribe ends the subscription. Its handler gets no more messages, except in a call already
// under way. A second call does nothing.
func (s *Sub) Unsubscribe() error {
	if !s.conn.subs.remove(s) {
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
	if c.subs.of(s.natsSub) == nil {
		return nil
	}
	ctx, cancel := bounded(ctx, flushTimeout)
	defer cancel()
	end := s.natsSub.Drain   //nolint:forbidigo // nothing else of nats.go keeps what was sent
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

// subscriptions are the live subscriptions of a connection.
type subscriptions struct {
	mu   sync.Mutex
	live map[*nats.Subscription]*Sub
}

// subscribe makes a subscription and adds it. Its first message may be in the Inbox before
// ChanQueueSubscribe returns. The lock makes the pump wait.
func (ss *subscriptions) subscribe(nc *nats.Conn, s *Sub) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ns, err := nc.ChanQueueSubscribe(s.subject, s.group, s.inbox.queue)
	if err != nil {
		return err
	}
	s.natsSub = ns
	ss.live[ns] = s
	return nil
}

// of returns the live subscription, or nil.
func (ss *subscriptions) of(ns *nats.Subscription) *Sub {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.live[ns]
}

// remove removes a subscription and reports whether it was live.
func (ss *subscriptions) remove(s *Sub) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	live := ss.live[s.natsSub] != nil
	delete(ss.live, s.natsSub)
	return live
}

func (ss *subscriptions) all() []*Sub {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return slices.Collect(maps.Values(ss.live))
}

// has reports whether a live subscription has a subject.
func (ss *subscriptions) has(subject string) bool {
	return slices.ContainsFunc(ss.all(), func(s *Sub) bool { return s.subject == subject })
}
