package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// What a peer can cause is logged, but at most so many lines a period.
const (
	noisyBurst  = 10
	noisyPeriod = time.Second
)

// The methods here run on the event goroutine nats.go has for each connection:
// one at a time, in order, and possibly before nats.Connect has returned, so
// they use the connection they are given.

func (c *Conn) state(kind StateKind, err error) {
	s := State{Lane: c.lane, Kind: kind, Err: err}
	c.bus.watchers.tell(s)
	if c.onState != nil {
		c.onState(s)
	}
}

func (c *Conn) onConnected(*nats.Conn) { c.state(Connected, nil) }

func (c *Conn) onDisconnected(_ *nats.Conn, err error) {
	c.life.end()
	c.inbox.overflow.Store(fits)
	if c.bus.isOver() {
		return // Closed follows and says it all
	}
	c.log.Warn().Err(err).Msg("bus disconnected")
	c.state(Disconnected, err)
}

// onReconnected waits for the server before it says so: nats.go calls it when
// the subscriptions are written, the server may not have read them yet (BUS-3).
func (c *Conn) onReconnected(nc *nats.Conn) {
	if !c.admissible(nc) {
		c.bus.fail(&ConnectError{URL: stripUserinfo(nc.ConnectedUrl()), Reason: OffLoopback})
		return
	}
	if !c.answers(nc) {
		return
	}
	c.log.Info().Str("url", stripUserinfo(nc.ConnectedUrl())).Msg("bus reconnected")
	c.state(Reconnected, nil)
}

// answers flushes. A connection that was lost meanwhile is nats.go's business,
// it is at it already; one whose server says nothing is given up here.
func (c *Conn) answers(nc *nats.Conn) bool {
	if !nc.IsConnected() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := nc.FlushWithContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		c.log.Warn().Err(err).Msg("bus reconnected, but the server does not answer")
		c.leave(nc)
	}
	return err == nil
}

// leave drops the connection and makes another.
func (c *Conn) leave(nc *nats.Conn) {
	if err := nc.ForceReconnect(); err != nil {
		c.log.Warn().Err(err).Msg("bus could not leave the server")
	}
}

// onClosed is the last event. Unasked, it means that nats.go has given up, for
// instance because the server refused the credentials twice.
func (c *Conn) onClosed(nc *nats.Conn) {
	if !c.bus.isOver() {
		c.bus.fail(fmt.Errorf("bus: %s lane closed by the server: %w", c.lane, nc.LastError()))
	}
	c.state(Closed, c.bus.Err())
	close(c.closed)
}

// onLameDuck leaves a server that is about to stop for another one.
func (c *Conn) onLameDuck(nc *nats.Conn) {
	c.log.Info().Msg("bus server is shutting down, leaving it")
	c.leave(nc)
}

// onError gets what nats.go has no caller for. Each case reports, reconnects or
// breaks; none is dropped (BUS-2).
func (c *Conn) onError(_ *nats.Conn, ns *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		if s := c.subOf(ns); s != nil {
			s.inbox.overflown(s.subject)
		}
	case errors.Is(err, nats.ErrPermissionViolation):
		c.onDenied(parsePermission(err))
	case errors.Is(err, nats.ErrMaxSubscriptionsExceeded):
		// The server does not say which subscription it refused.
		c.bus.fail(fmt.Errorf("bus: a subscription of the %s lane was refused: %w", c.lane, err))
	default:
		c.loud.Warn().Err(err).Str("subject", subjectOf(ns)).Msg("bus error")
	}
	c.verdict.note(err)
}

// onDenied gives a denial to whoever waits for it. A live subscription that is
// denied, after a reconnect to a server with other permissions, is deaf: that
// breaks the Bus.
func (c *Conn) onDenied(denied *PermissionError) {
	c.loud.Error().Str("op", string(denied.Op)).Str("subject", denied.Subject).Msg("bus permission denied")
	c.state(Denied, denied)
	if denied.Op == OpPublish {
		c.calls.deny(denied)
		return
	}
	if !c.verdict.deny(denied) && c.subscribes(denied.Subject) {
		c.bus.fail(denied)
	}
}

func (c *Conn) subscribes(subject string) bool {
	found := false
	c.subs.Range(func(_, s any) bool {
		found = s.(*Sub).subject == subject
		return !found
	})
	return found
}

// parsePermission reads the server's text: … Publish to "SUBJECT", or …
// Subscription to "SUBJECT", quoted as Go does.
func parsePermission(err error) *PermissionError {
	text := err.Error()
	p := &PermissionError{Op: OpPublish, Subject: text}
	if strings.Contains(text, `Subscription to "`) {
		p.Op = OpSubscribe
	}
	if i := strings.IndexByte(text, '"'); i >= 0 {
		if quoted, err := strconv.QuotedPrefix(text[i:]); err == nil {
			p.Subject, _ = strconv.Unquote(quoted)
		}
	}
	return p
}

func subjectOf(ns *nats.Subscription) string {
	if ns == nil {
		return ""
	}
	return ns.Subject
}
