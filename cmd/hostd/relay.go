package main

import (
	"context"
	"fmt"

	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/bus"
)

// relay hands on which connections have ended, where that can be heard (HOSTD-9). o is how the host reached the bus.
func (n *node) relay(ctx context.Context, o bus.Options) error {
	r := presence.Relaying{To: n.bus.Control(), Space: n.space, By: n.host.ID().Proc().Process(), Log: o.Log}
	switch {
	case n.systemCreds != "":
		var err error
		if n.admin, err = bus.Open(ctx, inSystem(o, n.systemCreds)); err != nil {
			return fmt.Errorf("--system-creds: %w", err)
		}
		r.From = n.admin.Control()
	case n.server != nil && n.natsConfig == "":
		if err := n.server.ShowEnds(); err != nil {
			return err
		}
		r.From = n.bus.Control()
	default:
		return nil
	}
	return presence.Relay(r)
}

// inSystem is the same server, as somebody else.
func inSystem(o bus.Options, creds string) bus.Options {
	o.Name += "/system"
	o.Creds = creds
	o.NKey, o.User, o.Password, o.Token, o.JWT, o.Seed = "", "", "", "", "", ""
	return o
}
