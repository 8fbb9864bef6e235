package bus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/nats-io/nats.go"
)

// Sub is a subscription.
type Sub struct {
	conn    *Conn
	ns      *nats.Subscription
	subject string
	group   string // "" = none
	handle  func(Msg)
}

// Subscribe calls h for each message on subject, which may have wildcards. When
// it returns, the server has the interest (BUS-3). h runs on the lane's one
// pump, in publish order across all subjects of the lane (BUS-1), and must not
// block: it keeps every other subscription of the lane waiting. Each Subscribe
// gets each message, also when several name one subject.
func (c *Conn) Subscribe(subject string, h func(Msg)) (*Sub, error) {
	return c.subscribe(&Sub{conn: c, subject: subject, handle: h})
}

// SubscribeGroup is Subscribe as one of a queue group: each message goes to one
// member of the group that the server picks. Which member gets what says
// nothing about order between them.
func (c *Conn) SubscribeGroup(subject, group string, h func(Msg)) (*Sub, error) {
	if group == "" || strings.ContainsAny(group, " \t\r\n") {
		return nil, fmt.Errorf("%w: queue group %q of %q: want a name without blanks", ErrBadSubject, group, subject)
	}
	return c.subscribe(&Sub{conn: c, subject: subject, group: group, handle: h})
}

func (c *Conn) subscribe(s *Sub) (*Sub, error) {
	if len(s.subject)+len(s.group) > maxControlLine {
		return nil, subjectTooLong(s.subject, s.group)
	}
	// Before the server hears of it: the denial may be quicker than we are.
	forget := c.verdict.expect(s)
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
	ns, err := c.nc.ChanQueueSubscribe(s.subject, s.group, c.inbox)
	if err != nil {
		return err
	}
	s.ns = ns
	c.subs.Store(ns, s)
	return nil
}

// confirm waits until the server has taken the subscription, or denied it.
func (c *Conn) confirm(ctx context.Context, s *Sub) error {
	if err := c.Flush(ctx); err != nil {
		return err
	}
	return c.verdict.of(ctx, s, c.nc.LastError)
}

// Unsubscribe ends the subscription; no message is handed to its handler
// afterwards, except by a call already under way. A second call does nothing.
func (s *Sub) Unsubscribe() error {
	if _, live := s.conn.subs.LoadAndDelete(s.ns); !live {
		return nil
	}
	err := s.ns.Unsubscribe()
	if err == nil || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) {
		return nil
	}
	return s.conn.translate(err, fmt.Sprintf("unsubscribe from %q", s.subject))
}

// Drain is Unsubscribe, once the handler has had every message that the server
// sent to the subscription before it heard that this ends: other members of its
// group get none of those. It waits for them until ctx ends, 5 s if that has no
// deadline; what the handler has not had by then is dropped. A lane without a
// server is sent nothing more. It must not be called from a handler.
func (s *Sub) Drain(ctx context.Context) error {
	c := s.conn
	if _, live := c.subs.Load(s.ns); !live {
		return nil
	}
	ctx, cancel := bounded(ctx, flushTimeout)
	defer cancel()
	end := s.ns.Drain        //nolint:forbidigo // nothing else of nats.go keeps what was sent; no bubble drains
	if !c.nc.IsConnected() { // nats.go would subscribe it anew on the next connection
		end = s.ns.Unsubscribe
	}
	var err error
	if end() == nil { // else the connection is closed
		err = c.Flush(ctx) // the server has sent everything
	}
	handed := make(chan struct{})
	c.AfterReceived(func() { close(handed) })
	select {
	case <-handed:
	case <-c.bus.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	switch left := s.Unsubscribe(); {
	case err == nil, errors.Is(err, ErrClosed), errors.Is(err, ErrDisconnected): // nothing more comes
		return left
	default:
		return errors.Join(fmt.Errorf("bus: drain %q: %w", s.subject, err), left)
	}
}

// pump hands the Inbox to the handlers, one message after the other, and closes
// the connection when the Bus is over. A panic in a handler breaks the Bus
// instead of the process (BUS-6).
func (c *Conn) pump() {
	defer close(c.stopped)
	defer c.nc.Close()
	defer func() {
		if p := recover(); p != nil {
			c.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("bus handler panicked")
			c.bus.fail(fmt.Errorf("%w on the %s lane: %v", ErrHandlerPanic, c.lane, p))
		}
	}()
	for {
		select {
		case <-c.bus.done:
			return
		case m := <-c.inbox:
			if m.Sub == nil {
				c.marks.reach(m)
			} else if s := c.subOf(m.Sub); s != nil {
				s.handle(fromNATS(m))
			}
		}
	}
}

// subOf finds the live subscription; nil if it has been unsubscribed.
func (c *Conn) subOf(ns *nats.Subscription) *Sub {
	if s, ok := c.subs.Load(ns); ok {
		return s.(*Sub)
	}
	c.subMu.Lock()
	defer c.subMu.Unlock()
	if s, ok := c.subs.Load(ns); ok {
		return s.(*Sub)
	}
	return nil
}

// awaitEnd waits for the pump and for the last event of nats.go.
func (c *Conn) awaitEnd(ctx context.Context) error {
	for _, end := range []<-chan struct{}{c.stopped, c.closed, c.marks.ended()} {
		select {
		case <-end:
		case <-ctx.Done():
			return fmt.Errorf("bus: close the %s lane: %w", c.lane, ctx.Err())
		}
	}
	return nil
}
