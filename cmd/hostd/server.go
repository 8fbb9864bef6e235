package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
)

// defaultPort is the default port of NATS clients.
const defaultPort = 4222

// portRetryTimeout bounds the wait for a busy port that kept procs know.
const portRetryTimeout = 2 * time.Second

// startServer runs the own server and returns its bus options. hostd uses the same path as its
// procs, so an unusable server is detected now.
func startServer(ctx context.Context, c config, getenv func(string) string,
	log zerolog.Logger) (*embed.Server, bus.Options, error) {
	s := c.server
	srv, err := c.startServerOn(ctx, s.port, log)
	taken, is := errors.AsType[*net.OpError](err)
	end := time.Now().Add(portRetryTimeout)
	for is && s.portRestored && ctx.Err() == nil && time.Now().Before(end) {
		time.Sleep(portRetryTimeout / 100) // a client connection may have it briefly, as an ephemeral port
		srv, err = c.startServerOn(ctx, s.port, log)
		taken, is = errors.AsType[*net.OpError](err)
	}
	switch {
	case !is || c.natsConfig != "":
	case s.portRestored:
		err = fmt.Errorf("cannot listen on port %d, the port of the last hostd with --state-dir %s: %w: "+
			"choose another with --listen", s.port, c.stateDir, taken.Err)
	case s.portSet:
		err = fmt.Errorf("--listen %s: %w", c.listen, taken.Err)
	default:
		srv, err = c.startServerOn(ctx, 0, log)
	}
	if err != nil {
		return nil, bus.Options{}, err
	}
	o, err := c.ownBusOptions(srv, getenv)
	if err != nil {
		srv.Shutdown()
		return nil, bus.Options{}, err
	}
	return srv, o, nil
}

// startServerOn starts the server on a port; 0 is any.
func (c config) startServerOn(ctx context.Context, port int, log zerolog.Logger) (*embed.Server, error) {
	started := new(atomic.Bool)
	srv, err := embed.Start(ctx, embed.Options{
		Host: c.server.host, Port: port, Token: c.server.token, ConfigFile: c.natsConfig,
		Tickets: c.natsConfig == "" && c.server.token != "", TLS: c.server.tls.forServer(),
		JetStream: c.data != "", StoreDir: c.data, Insecure: c.conn.Insecure,
		Log: log.Hook(startupErrorFilter{started}),
	})
	started.Store(err == nil)
	return srv, err
}

// ownBusOptions returns the options of the node's connections to its own server.
func (c config) ownBusOptions(srv *embed.Server, getenv func(string) string) (bus.Options, error) {
	if srv.URL() == "" {
		return bus.Options{}, fmt.Errorf("%s: the server does not listen: procs cannot reach it", c.natsConfig)
	}
	if c.natsConfig == "" {
		return bus.Options{
			URL: loopbackURL(srv.URL()), Token: srv.Token(), Insecure: c.conn.Insecure,
			Fingerprint: c.server.tls.forClients(), CertFile: c.conn.TLSCert, KeyFile: c.conn.TLSKey,
		}, nil
	}
	conn := c.conn
	conn.Server = loopbackURL(srv.URL())
	o, err := conn.Options(getenv)
	o = c.authenticate(o)
	if o.UserJWT == nil && o.Creds == "" && o.NKey == "" && o.User == "" && o.JWT == "" && o.Token == "" {
		o.Token = srv.Token()
	}
	if err == nil {
		err = c.checkIdentity(o)
	}
	return o, err
}

// loopbackURL replaces an unspecified listen address by the loopback one.
func loopbackURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	switch ip := net.ParseIP(u.Hostname()); {
	case ip == nil || !ip.IsUnspecified():
		return raw
	case ip.To4() != nil:
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	default:
		u.Host = net.JoinHostPort("::1", u.Port())
	}
	return u.String()
}

// startupErrorFilter suppresses the server's errors until its start. Start returns them, and one
// failure is one line.
type startupErrorFilter struct{ started *atomic.Bool }

func (l startupErrorFilter) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if level >= zerolog.ErrorLevel && !l.started.Load() {
		e.Discard()
	}
}
