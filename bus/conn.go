package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// maxControlLine is what subject and reply may take together. The server cuts
// a client whose protocol line exceeds 4,096 bytes, so it is refused here.
const maxControlLine = 4096 - 64

// Conn is one lane: a connection, its Inbox, and its lossy ones. Its methods are safe
// for concurrent use.
type Conn struct {
	bus  *Bus
	lane Lane
	nc   *nats.Conn
	log  zerolog.Logger
	loud zerolog.Logger // log, thinned out, for what a peer can cause

	insecure, inProcess, clientCert bool

	onState func(State)
	closed  chan struct{} // nats.go has reported its last event
	life    *life

	inbox   *Inbox     // BUS-1: what Subscribe makes feeds this one queue
	lossyMu sync.Mutex // guards lossy
	lossy   map[string]*Inbox
	subs    sync.Map   // *nats.Subscription -> *Sub
	subMu   sync.Mutex // held while a subscription enters subs
	verdict verdicts
	calls   calls
}

func newConn(b *Bus, lane Lane, o Options) *Conn {
	log := o.Log.With().Str("lane", string(lane)).Logger()
	c := &Conn{
		bus:        b,
		lane:       lane,
		log:        log,
		loud:       log.Sample(&zerolog.BurstSampler{Burst: noisyBurst, Period: noisyPeriod}),
		insecure:   o.Insecure,
		inProcess:  o.Server != nil,
		clientCert: o.CertFile != "",
		onState:    o.OnState,
		closed:     make(chan struct{}),
		life:       newLife(),
		lossy:      map[string]*Inbox{},
	}
	c.inbox = newInbox(c, "", o.QueueLen)
	return c
}

// Publish sends data to subject. It returns when the connection's buffer has
// it; ErrDisconnected when there is no server, in which case it is not sent
// later either.
func (c *Conn) Publish(subject string, data []byte) error {
	if len(subject) > maxControlLine {
		return subjectTooLong(subject, "")
	}
	if err := c.nc.Publish(subject, data); err != nil {
		return c.publishErr(err, Msg{Subject: subject, Data: data})
	}
	return nil
}

// PublishMsg is Publish with reply subject and headers.
func (c *Conn) PublishMsg(m Msg) error {
	if len(m.Subject)+len(m.Reply) > maxControlLine {
		return subjectTooLong(m.Subject, m.Reply)
	}
	if err := c.nc.PublishMsg(toNATS(m)); err != nil {
		return c.publishErr(err, m)
	}
	return nil
}

// Flush returns when the server has processed everything published and
// subscribed on this lane before. Without a deadline in ctx it waits 5 s.
func (c *Conn) Flush(ctx context.Context) error {
	ctx, cancel := bounded(ctx, flushTimeout)
	defer cancel()
	life := c.life.current() // before looking: what is lost from now on ends it
	defer context.AfterFunc(life, cancel)()
	if !c.nc.IsConnected() && !c.nc.IsClosed() {
		return fmt.Errorf("%w: flush", ErrDisconnected)
	}
	err := c.nc.FlushWithContext(ctx)
	if err != nil && life.Err() != nil {
		err = nats.ErrConnectionClosed // of which translate finds out the kind
	}
	if err != nil {
		return c.translate(err, "flush")
	}
	return nil
}

// Connection counts the lane's connections. When it says the same before a publish and after a Flush, the
// server has what was published; when not, that may be lost.
func (c *Conn) Connection() uint64 { return c.nc.Stats().Reconnects }

// MaxPayload is the largest message, headers included, the server accepts.
func (c *Conn) MaxPayload() int { return int(c.nc.MaxPayload()) }

// URL is the server this lane is connected to, without userinfo; "" while it
// is connected to none.
func (c *Conn) URL() string { return stripUserinfo(c.nc.ConnectedUrl()) }

// Client names the lane's connection as its server knows it: the server's ID, and a number that this server
// uses once. The ID is "" while it is connected to none.
func (c *Conn) Client() (server string, number uint64) {
	number, err := c.nc.GetClientID()
	if err != nil {
		return "", 0
	}
	return c.nc.ConnectedServerId(), number
}

// Server is the version of the server, and that of TLS on the way to it: "" is none.
func (c *Conn) Server() (version, secured string) {
	if state, err := c.nc.TLSConnectionState(); err == nil {
		secured = tls.VersionName(state.Version)
	}
	return c.nc.ConnectedServerVersion(), secured
}

// Clustered reports whether the server is one of several, which hear of each
// other's subscriptions a moment later.
func (c *Conn) Clustered() bool { return c.nc.ConnectedClusterName() != "" }

// publishErr names what was wrong with m.
func (c *Conn) publishErr(err error, m Msg) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %d bytes to %q, the server accepts %d",
			ErrTooLarge, len(m.Data)+m.Header.size(), m.Subject, c.MaxPayload())
	case errors.Is(err, nats.ErrBadSubject):
		return fmt.Errorf("%w: subject %q, reply %q", ErrBadSubject, m.Subject, m.Reply)
	}
	return c.translate(err, fmt.Sprintf("publish to %q", m.Subject))
}

// translate turns the errors of nats.go into ours.
func (c *Conn) translate(err error, doing string) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed) && c.nc.IsClosed():
		return c.bus.closedErr()
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionReconnecting):
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
