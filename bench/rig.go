package main

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh"
)

// rig is what both sides stand on: a server and a host in processes of their own, and this
// process's connections to them. The server may be in this process, too.
//
//	bench ── net, raw ──▶ server ◀── host ──▶ procs (ours)
//	                         ▲────── responders, starters (base)
type rig struct {
	*ground
	url, token string
	server     *server.Server
	raw        *nats.Conn    // the base's
	net        *mesh.Net     // ours; nil without a host
	hosts      mesh.HostMesh // the one
	children   []*child      // all that were started
}

// onRig is the setup of a family that needs one.
func onRig(on func(context.Context, *rig) (contest, error)) setup {
	return onServer(false, func(ctx context.Context, r *rig) (contest, error) {
		if err := r.addHost(ctx); err != nil {
			return nil, err
		}
		return on(ctx, r)
	})
}

// onServer is that of one that needs no host; embedded: the server is in this process.
func onServer(embedded bool, on func(context.Context, *rig) (contest, error)) setup {
	return func(ctx context.Context, g *ground) (contest, error) {
		r, err := newRig(ctx, g, embedded)
		if err != nil {
			return nil, err
		}
		return on(ctx, r)
	}
}

// newRig starts a rig without a host, which ends with the ground it is on, also when there is an
// error.
func newRig(ctx context.Context, g *ground, embedded bool) (*rig, error) {
	r := &rig{ground: g, token: rand.Text()}
	if !embedded {
		said, err := r.start(ctx, serverRole)
		if err != nil {
			return r, err
		}
		r.url = said[0]
	}
	var err error
	r.server, err = server.Open(ctx, server.Options{URL: r.url, Token: r.token})
	if err != nil {
		return r, err
	}
	r.later(func(context.Context) error { r.server.Close(); return nil })
	r.url = r.server.URL()
	r.raw, err = rawConnect(r.url, r.token)
	if err != nil {
		return r, err
	}
	r.later(func(context.Context) error { r.raw.Close(); return nil })
	return r, nil
}

// addHost starts a host and connects to it.
func (r *rig) addHost(ctx context.Context) error {
	if _, err := r.start(ctx, hostRole); err != nil {
		return err
	}
	return r.connect(ctx, 1)
}

// connect joins the hosts that are there.
func (r *rig) connect(ctx context.Context, hosts int) error {
	return r.connectWith(ctx, hosts, server.Log())
}

// connectWith is connect for those who expect what is worth a line of a log.
func (r *rig) connectWith(ctx context.Context, hosts int, log zerolog.Logger) (err error) {
	r.net, err = mesh.Connect(ctx, mesh.Options{
		Bus: &bus.Options{URL: r.url, Token: r.token}, Label: "bench", Log: log,
		OnFailure: func(actor.Event) {}, // rows end ranks on purpose; the log has them
	})
	if err != nil {
		return err
	}
	r.later(r.net.Close)
	r.hosts, err = r.net.AwaitHosts(ctx, hosts)
	return err
}

// start starts children, one for each role, and returns the ready line of each.
func (r *rig) start(ctx context.Context, roles ...string) ([]string, error) {
	var all []launch
	for _, role := range roles {
		all = append(all, launch{role, nil})
	}
	return r.launch(ctx, all...)
}

// launch is a child to be started: its role, and what its environment has besides the server.
type launch struct {
	role string
	env  []string
}

// launch starts children and returns the ready line of each.
func (r *rig) launch(ctx context.Context, all ...launch) ([]string, error) {
	children := make([]*child, 0, len(all))
	r.later(func(context.Context) error { return endChildren(children...) })
	for _, l := range all {
		c, err := startRole(l.role, slices.Concat(r.env(), l.env)...)
		if err != nil {
			return nil, err
		}
		children = append(children, c)
		r.children = append(r.children, c)
	}
	var said []string
	for _, c := range children {
		line, err := c.line(ctx)
		if err != nil {
			return nil, err
		}
		said = append(said, line)
	}
	return said, nil
}

// env tells a child how to reach the server.
func (r *rig) env() []string { return []string{urlEnv + "=" + r.url, tokenEnv + "=" + r.token} }
