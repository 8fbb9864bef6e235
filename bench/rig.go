package main

import (
	"context"
	"crypto/rand"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh"
)

// rig is what both sides stand on: a server and a host in processes of their own, and this
// process's connections to them.
//
//	bench ── net, raw ──▶ server ◀── host ──▶ procs (ours)
//	                         ▲────── responders, starters (base)
type rig struct {
	*ground
	url, token string
	raw        *nats.Conn    // the base's
	net        *mesh.Net     // ours
	hosts      mesh.HostMesh // the one
}

// onRig is the setup of a family that needs one.
func onRig(on func(context.Context, *rig) (contest, error)) setup {
	return func(ctx context.Context, g *ground) (contest, error) {
		r, err := newRig(ctx, g)
		if err != nil {
			return nil, err
		}
		return on(ctx, r)
	}
}

// newRig starts a rig, which ends with the ground it is on, also when there is an error.
func newRig(ctx context.Context, g *ground) (*rig, error) {
	r := &rig{ground: g, token: rand.Text()}
	said, err := r.start(ctx, serverRole)
	if err != nil {
		return r, err
	}
	r.url = said[0]
	if r.raw, err = rawConnect(r.url, r.token); err != nil {
		return r, err
	}
	r.later(func(context.Context) error { r.raw.Close(); return nil })
	if _, err := r.start(ctx, hostRole); err != nil {
		return r, err
	}
	r.net, err = mesh.Connect(ctx, mesh.Options{
		Bus: &bus.Options{URL: r.url, Token: r.token}, Label: "bench", Log: server.Log(),
	})
	if err != nil {
		return r, err
	}
	r.later(r.net.Close)
	r.hosts, err = r.net.AwaitHosts(ctx, 1)
	return r, err
}

// start starts children, one for each role named, and returns what each said when it was ready.
func (r *rig) start(ctx context.Context, roles ...string) ([]string, error) {
	children := make([]*child, 0, len(roles))
	r.later(func(context.Context) error { return endChildren(children...) })
	for _, role := range roles {
		c, err := startRole(role, r.env()...)
		if err != nil {
			return nil, err
		}
		children = append(children, c)
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
