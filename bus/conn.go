package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// maxControlLine bounds subject and reply together. The server cuts a client whose protocol line
// exceeds 4,096 bytes, so longer ones are refused here.
const maxControlLine = 4096 - 64

// Conn is a connection with its Inbox and its lossy ones. Its methods are safe for
// concurrent use.
type Conn struct {
	bus        *Bus
	name       ConnName
	nc         *nats.Conn
	log        zerolog.Logger
	sampledLog zerolog.Logger // log with rate limits, for lines that a peer can cause

	policy serverPolicy

	onState func(State)
	closed  chan struct{} // nats.go has reported its last event
	connCtx *connContext

	auth           *authentication
	where          string        // the server, for errors
	refusedTimeout time.Duration // of consecutive refusals
	leaving        atomic.Bool   // a renewal drops the connection
	renews         bool          // its credentials can be replaced
	calls          callGate      // flushes and requests
	reconnected    chan struct{} // holds one: onReconnected has run
	renewed        chan struct{} // closed when no more renewals follow

	inbox    *Inbox     // BUS-1: the one queue of all Subscribe calls
	lossyMu  sync.Mutex // guards lossy
	lossy    map[string]*Inbox
	subs     subscriptions
	denials  denials
	requests requests
}

func newConn(b *Bus, name ConnName, o Options) *Conn {
	log := o.Log.With().Str("connection", string(name)).Logger()
	c := &Conn{
		bus:        b,
		name:       name,
		log:        log,
		sampledLog: log.Sample(&zerolog.BurstSampler{Burst: eventLogBurst, Period: logPeriod}),
		policy:     serverPolicy{insecure: o.Insecure, inProcess: o.Server != nil, clientCert: o.CertFile != ""},
		onState:    o.OnState,
		closed:     make(chan struct{}),
		connCtx:    newConnContext(),
		auth:       newAuthentication(),
		where:      o.where(),
		renewed:    make(chan struct{}),

		reconnected: make(chan struct{}, 1),

		refusedTimeout: o.RefusedTimeout,
		renews:         o.Creds != "" || o.UserJWT != nil,
		lossy:          map[string]*Inbox{},
		subs:           subscriptions{live: map[*nats.Subscription]*Sub{}},
	}
	c.inbox = newInbox(c, "", o.QueueLen)
	return c
}

// Publish sends data to subject. It returns when the data is in the connection's buffer. Without a
// server it returns ErrDisconnected, and the data is not sent later either.
func (c *Conn) Publish(subject string, data []byte) error {
	if len(subject) > maxControlLine {
		return subjectTooLong(subject, "")
	}
	err := c.nc.Publish(subject, data)
	if isDisconnected(err) && c.awaitRenewal() {
		err = c.nc.Publish(subject, data)
	}
	if err != nil {
		return c.publishErr(err, Msg{Subject: subject, Data: data})
	}
	return nil
}

// PublishMsg is Publish with reply subject and headers.
func (c *Conn) PublishMsg(m Msg) error {
	err := c.publishOnce(m)
	if errors.Is(err, ErrDisconnected) && c.awaitRenewal() {
		err = c.publishOnce(m)
	}
	return err
}

// publishOnce is PublishMsg, also for a call that a renewal waits for.
func (c *Conn) publishOnce(m Msg) error {
	if len(m.Subject)+len(m.Reply) > maxControlLine {
		return subjectTooLong(m.Subject, m.Reply)
	}
	if err := c.nc.PublishMsg(toNATS(m)); err != nil {
		return c.publishErr(err, m)
	}
	return nil
}

// Flush returns when the server has processed all earlier publishes and subscriptions of this
// connection. Without a deadline in ctx it waits 5 s.
func (c *Conn) Flush(ctx context.Context) error {
	ctx, cancel := bounded(ctx, flushTimeout)
	defer cancel()
	c.calls.enter()
	defer c.calls.leave()
	life := c.connCtx.current() // before the check: a later loss ends it
	defer context.AfterFunc(life, cancel)()
	if !c.nc.IsConnected() && !c.nc.IsClosed() {
		return fmt.Errorf("%w: flush", ErrDisconnected)
	}
	err := c.nc.FlushWithContext(ctx)
	if err != nil && life.Err() != nil {
		err = nats.ErrConnectionClosed // translate determines the kind
	}
	if err != nil {
		return c.translate(err, "flush")
	}
	return nil
}

// ConnectionCount counts the connects of this Conn. If it is equal before a publish and after a
// Flush, the server has the message; otherwise the message may be lost.
func (c *Conn) ConnectionCount() uint64 { return c.nc.Stats().Reconnects }

// MaxPayload is the largest message, headers included, the server accepts.
func (c *Conn) MaxPayload() int { return int(c.nc.MaxPayload()) }

// URL is the server of this connection, without userinfo; "" while disconnected.
func (c *Conn) URL() string { return stripUserinfo(c.nc.ConnectedUrl()) }

// ServerClientID is the server's identity of the connection: the server's ID, and a number
// unique on that server. The ID is "" while disconnected.
func (c *Conn) ServerClientID() (server string, number uint64) {
	number, err := c.nc.GetClientID()
	if err != nil {
		return "", 0
	}
	return c.nc.ConnectedServerId(), number
}

// ServerName is the name of the server; "" while disconnected.
func (c *Conn) ServerName() string { return c.nc.ConnectedServerName() }

// ServerVersion is the version of the server, and of TLS on the connection; "" without TLS.
func (c *Conn) ServerVersion() (version, secured string) {
	if state, err := c.nc.TLSConnectionState(); err == nil {
		secured = tls.VersionName(state.Version)
	}
	return c.nc.ConnectedServerVersion(), secured
}

// Clustered reports whether the server is part of a cluster. Its servers learn of each other's
// subscriptions with a short delay.
func (c *Conn) Clustered() bool { return c.nc.ConnectedClusterName() != "" }

// publishErr describes the fault of m.
func (c *Conn) publishErr(err error, m Msg) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: %d bytes to %q, the server accepts %d",
			ErrTooLarge, len(m.Data)+m.Header.size(), m.Subject, c.MaxPayload())
	}
	if errors.Is(err, nats.ErrBadSubject) {
		return fmt.Errorf("%w: subject %q, reply %q", ErrBadSubject, m.Subject, m.Reply)
	}
	return c.translate(err, fmt.Sprintf("publish to %q", m.Subject))
}

// isDisconnected reports whether a call failed without a server.
func isDisconnected(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrReconnectBufExceeded) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionReconnecting)
}

// translate turns the errors of nats.go into ours.
func (c *Conn) translate(err error, doing string) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed) && c.nc.IsClosed():
		return c.bus.closedErr()
	case isDisconnected(err):
		// A flush in flight when the connection is lost ends as "closed".
		return fmt.Errorf("%w: %s", ErrDisconnected, doing)
	case errors.Is(err, nats.ErrBadSubject):
		return fmt.Errorf("%w: %s", ErrBadSubject, doing)
	}
	if _, is := errors.AsType[net.Error](err); is { // the connection is about to be given up
		return fmt.Errorf("%w: %s: %w", ErrDisconnected, doing, err)
	}
	return fmt.Errorf("bus: %s: %w", doing, err)
}

func subjectTooLong(subject, reply string) error {
	return fmt.Errorf("%w: subject and reply have %d bytes, at most %d are allowed (subject begins %.64q)",
		ErrBadSubject, len(subject)+len(reply), maxControlLine, subject)
}
