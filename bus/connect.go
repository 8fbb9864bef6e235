package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	maxPingsOut     = 2
	flusherTimeout  = 5 * time.Second
	reconnectWait   = 100 * time.Millisecond
	reconnectJitter = 0.2
)

// natsOptions are the settings of reliability. There is no reconnect buffer: a publish without a
// server fails at once instead of arriving late or never. Reconnects never end, a dead peer is
// noticed in three ping intervals, and every error has an owner.
func (c *Conn) natsOptions(ctx context.Context, o Options) ([]nats.Option, error) {
	timeout := o.ConnectTimeout
	if d, ok := ctx.Deadline(); ok {
		timeout = max(time.Millisecond, min(timeout, time.Until(d)))
	}
	opts := []nats.Option{
		nats.Name(o.Name + "/" + string(c.name)),
		nats.Timeout(timeout),
		nats.ReconnectBufSize(-1),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(func(attempts int) time.Duration {
			return reconnectDelay(attempts,
				o.ReconnectMax)
		}),
		nats.PingInterval(o.PingInterval),
		nats.MaxPingsOutstanding(maxPingsOut),
		nats.FlusherTimeout(flusherTimeout),
		nats.ReconnectOnFlusherError(),
		nats.ErrorHandler(c.onError),
		nats.ConnectHandler(func(*nats.Conn) { c.notifyState(Connected, nil) }),
		nats.DisconnectErrHandler(c.onDisconnected),
		nats.ReconnectHandler(c.onReconnected),
		nats.ClosedHandler(c.onClosed),
		nats.LameDuckModeHandler(func(nc *nats.Conn) {
			c.log.Info().Msg("bus server is shutting down, leaving it")
			forceReconnect(nc, c.log)
		}),
	}
	if c.name == DataConn {
		// Members in the sender's own process are served without the bus.
		opts = append(opts, nats.NoEcho())
	}
	if o.Server != nil {
		opts = append(opts, nats.InProcessServer(o.Server))
	}
	if o.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(o.InboxPrefix))
	}
	if o.hasUserJWT() {
		opts = append(opts, c.jwtOption(o)...)
	}
	return credentialOptions(opts, o)
}

// credentialOptions passes constant credentials and TLS files through.
func credentialOptions(opts []nats.Option, o Options) ([]nats.Option, error) {
	if o.NKey != "" {
		nkey, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, err
		}
		opts = append(opts, nkey)
	}
	if o.User != "" {
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	if o.Token != "" {
		opts = append(opts, nats.Token(o.Token))
	}
	if o.Fingerprint != "" {
		opts = append(opts, nats.Secure(pinTo(o.Fingerprint))) // before the certificate, which goes into it
	}
	if o.CertFile != "" {
		opts = append(opts, nats.ClientCert(o.CertFile, o.KeyFile))
	}
	if o.Fingerprint == "" && o.CAFile != "" {
		opts = append(opts, nats.RootCAs(o.CAFile))
	}
	if o.TLSFirst {
		opts = append(opts, nats.TLSHandshakeFirst())
	}
	return opts, nil
}

// reconnectDelay doubles from reconnectWait to most, with jitter, so that the clients of a
// restarted server do not arrive all at once.
func reconnectDelay(attempts int, most time.Duration) time.Duration {
	d := most
	if shift := attempts - 1; shift >= 0 && shift < 16 {
		d = min(most, reconnectWait<<shift)
	}
	return d + time.Duration(rand.Float64()*reconnectJitter*float64(d))
}

// dial connects once: only connections that worked before are retried.
func (c *Conn) dial(ctx context.Context, o Options) error {
	fail := func(r Reason, err error) error {
		return &ConnectError{URL: o.where(), Reason: r, Hint: o.hint, Err: err}
	}
	opts, err := c.natsOptions(ctx, o)
	if err != nil {
		return fail(BadOptions, err)
	}
	nc, err := nats.Connect(o.URL, opts...)
	switch {
	case err == nil:
	case errors.Is(err, nats.ErrNoServers):
		return fail(NoServer, nil)
	case isRefusal(err), errors.Is(err, nats.ErrNkeysNotSupported):
		if !o.hasCredentials() && o.CertFile == "" && !strings.Contains(o.URL, "@") {
			err = fmt.Errorf("%w: this client gave none", err)
		}
		if o.Advice != nil {
			o.hint = o.Advice(time.Now())
		}
		o.hint = cmp.Or(c.auth.advice(), o.hint)
		return fail(WrongCredentials, err)
	case o.Fingerprint != "" && errors.Is(err, nats.ErrSecureConnWanted):
		return fail(WrongServer, errNoTLS)
	case o.Fingerprint != "" && isUntrusted(err):
		return fail(WrongServer, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail(SilentServer, nil)
	default:
		if bad, ok := errors.AsType[*url.Error](err); ok {
			return fail(BadOptions, bad.Err) // without the URL, because it may hold a password
		}
		return fail(OtherFailure, err)
	}
	c.nc = nc
	if !c.policy.allows(nc) {
		refusal := fail(UnauthenticatedRemote, nil)
		c.bus.shutdown(refusal) // before the close, otherwise attributed to the server
		nc.Close()
		return refusal
	}
	return nil
}

// serverPolicy decides which servers a connection may use (BUS-4).
type serverPolicy struct{ insecure, inProcess, clientCert bool }

// allows reports whether the connection may use its server. A client certificate sent over TLS
// counts as authentication, on the user's assertion that the server checks it. A lost connection
// passes: the check runs on the next one.
func (p serverPolicy) allows(nc *nats.Conn) bool {
	if p.insecure || p.inProcess || nc.AuthRequired() {
		return true
	}
	if _, err := nc.TLSConnectionState(); err == nil && p.clientCert {
		return true
	}
	at := nc.ConnectedAddr()
	addr, err := netip.ParseAddrPort(at)
	return at == "" || err == nil && addr.Addr().Unmap().IsLoopback()
}
