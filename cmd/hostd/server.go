package main

import (
	"context"
	"crypto/rand"
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

// defaultPort is where NATS clients look first.
const defaultPort = 4222

// recallWithin is how long the port that kept procs know may be taken.
const recallWithin = 2 * time.Second

func newToken() string { return rand.Text() }

// startServer runs the server of its own and says how to reach it. hostd itself goes by the same
// road as its procs, so that a server they cannot use is found out now.
func startServer(ctx context.Context, c config, getenv func(string) string, log zerolog.Logger) (*embed.Server, bus.Options, error) {
	s := c.server
	srv, err := c.startOn(ctx, s.port, log)
	taken, is := errors.AsType[*net.OpError](err)
	for end := time.Now().Add(recallWithin); is && s.recalled && ctx.Err() == nil && time.Now().Before(end); taken, is = errors.AsType[*net.OpError](err) {
		time.Sleep(recallWithin / 100) // somebody's connection may have it for a moment: it is of those that the kernel gives away
		srv, err = c.startOn(ctx, s.port, log)
	}
	switch {
	case !is || c.natsConfig != "":
	case s.recalled:
		err = fmt.Errorf("port %d, where procs that are kept look for the server of %s: %w: choose another with --listen", s.port, c.stateDir, taken.Err)
	case s.chosen:
		err = fmt.Errorf("--listen %s: %w", c.listen, taken.Err)
	default:
		srv, err = c.startOn(ctx, 0, log)
	}
	if err != nil {
		return nil, bus.Options{}, err
	}
	o, err := c.ownOptions(srv, getenv)
	if err != nil {
		srv.Shutdown()
		return nil, bus.Options{}, err
	}
	return srv, o, nil
}

// startOn starts the server on a port; 0 is any.
func (c config) startOn(ctx context.Context, port int, log zerolog.Logger) (*embed.Server, error) {
	started := new(atomic.Bool)
	srv, err := embed.Start(ctx, embed.Options{
		Host: c.server.host, Port: port, Token: c.server.token, ConfigFile: c.natsConfig,
		JetStream: c.data != "", StoreDir: c.data, Insecure: c.conn.Insecure, Log: log.Hook(later{started}),
	})
	started.Store(err == nil)
	return srv, err
}

// ownOptions is how this node reaches its own server.
func (c config) ownOptions(srv *embed.Server, getenv func(string) string) (bus.Options, error) {
	if srv.URL() == "" {
		return bus.Options{}, fmt.Errorf("%s: the server does not listen, so procs could not reach it", c.natsConfig)
	}
	if c.natsConfig == "" {
		return bus.Options{URL: reachable(srv.URL()), Token: srv.Token(), Insecure: c.conn.Insecure}, nil
	}
	conn := c.conn
	conn.Server = reachable(srv.URL())
	o, err := conn.Options(getenv)
	if o.Creds == "" && o.NKey == "" && o.User == "" && o.JWT == "" && o.Token == "" {
		o.Token = srv.Token()
	}
	return o, err
}

// reachable replaces the address of a server that listens on all of them by the loopback one.
func reachable(raw string) string {
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

// later keeps the server's errors back until it has started: until then Start returns them, and
// one failure is one line.
type later struct{ started *atomic.Bool }

func (l later) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if level >= zerolog.ErrorLevel && !l.started.Load() {
		e.Discard()
	}
}
