package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// Rate limit of the log lines that a peer can cause.
const (
	eventLogBurst = 10
	logPeriod     = time.Second
)

// The handlers here run on nats.go's event goroutine of each connection: one at a time, in order,
// and possibly before nats.Connect has returned. So they use the connection in their argument.

func (c *Conn) notifyState(kind StateKind, err error) {
	s := State{Conn: c.name, Kind: kind, Err: err}
	c.bus.watchers.notify(s)
	if c.onState != nil {
		c.onState(s)
	}
}

func (c *Conn) onDisconnected(_ *nats.Conn, err error) {
	c.connCtx.endConnection()
	c.inbox.overflow.Store(inboxFits)
	if c.bus.isEnded() {
		return // Closed follows with the reason
	}
	if !c.leaving.Swap(false) {
		c.log.Warn().Err(err).Msg("bus disconnected")
	}
	c.notifyState(Disconnected, err)
}

// onReconnected waits for the server before it reports the State. nats.go calls it when the
// subscriptions are written; the server may not have read them yet (BUS-3).
func (c *Conn) onReconnected(nc *nats.Conn) {
	if !c.policy.allows(nc) {
		c.bus.fail(&ConnectError{URL: stripUserinfo(nc.ConnectedUrl()), Reason: UnauthenticatedRemote})
		return
	}
	if !serverResponds(nc, c.log) {
		return
	}
	c.auth.accepted()
	c.log.Info().Str("url", stripUserinfo(nc.ConnectedUrl())).Msg("bus reconnected")
	c.notifyState(Reconnected, nil)
	select {
	case c.reconnected <- struct{}{}:
	default:
	}
}

// serverResponds flushes. If the connection is lost meanwhile, nats.go already handles that. If the
// server does not answer, serverResponds drops the connection.
func serverResponds(nc *nats.Conn, log zerolog.Logger) bool {
	if !nc.IsConnected() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := nc.FlushWithContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn().Err(err).Msg("bus reconnected, but the server does not answer")
		forceReconnect(nc, log)
	}
	return err == nil
}

// forceReconnect drops the connection and makes another.
func forceReconnect(nc *nats.Conn, log zerolog.Logger) {
	if err := nc.ForceReconnect(); err != nil {
		log.Warn().Err(err).Msg("cannot leave the server")
	}
}

// onClosed is the last event. If the close was not requested, nats.go has given up, for instance
// because the server refused the credentials twice.
func (c *Conn) onClosed(nc *nats.Conn) {
	if !c.bus.isEnded() {
		c.bus.fail(fmt.Errorf("bus: %s connection closed by the server: %w", c.name, nc.LastError()))
	}
	c.notifyState(Closed, c.bus.Err())
	close(c.closed)
}

// onError gets nats.go's asynchronous errors. Each case reports, reconnects or breaks the Bus; none
// is dropped (BUS-2).
func (c *Conn) onError(_ *nats.Conn, ns *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		if s := c.subs.of(ns); s != nil {
			s.inbox.onOverflow(s.subject)
		}
	case errors.Is(err, nats.ErrPermissionViolation):
		c.onDenied(parsePermission(err))
	case errors.Is(err, nats.ErrMaxSubscriptionsExceeded):
		// The server does not name the refused subscription. A user whose signing key was removed may
		// have none, just before its connection is closed.
		err := fmt.Errorf("bus: a subscription of the %s connection was refused: %w", c.name, err)
		if advice := c.auth.advice(); advice != "" {
			err = fmt.Errorf("%w (%s)", err, advice)
		}
		c.bus.fail(err)
	case isRefusal(err) && c.auth.isUsed():
		c.onRefused(err)
	default:
		c.sampledLog.Warn().Err(err).Str("subject", subjectOf(ns)).Msg("bus error")
	}
	c.denials.markHandled(err)
}

// onDenied passes a denial to the waiting caller. A live subscription may be denied after a
// reconnect to a server with other permissions. It then receives nothing, and that breaks the Bus.
func (c *Conn) onDenied(denied *PermissionError) {
	c.sampledLog.Error().Str("op", string(denied.Op)).Str("subject", denied.Subject).
		Msg("bus permission denied")
	c.notifyState(Denied, denied)
	if denied.Op == OpPublish {
		c.requests.deny(denied)
		return
	}
	if !c.denials.record(denied) && c.subs.has(denied.Subject) {
		c.bus.fail(denied)
	}
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
