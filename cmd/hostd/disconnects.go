package main

import (
	"context"
	"fmt"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/presence"
)

// relayDisconnects relays the ends of connections where the server reports them (HOSTD-9). o are
// the host's bus options.
func (n *node) relayDisconnects(ctx context.Context, o bus.Options) error {
	r := presence.RelayConfig{
		To: n.bus.Control(), Space: n.space, Sender: n.host.Proc().Sender(), Log: o.Log,
	}
	switch {
	case n.systemCreds != "":
		var err error
		n.systemBus, err = bus.Open(ctx, systemOptions(o, n.systemCreds))
		if err != nil {
			return fmt.Errorf("--system-creds: %w", err)
		}
		r.From = n.systemBus.Control()
	case n.server != nil && n.natsConfig == "":
		if err := n.server.ExportDisconnects(); err != nil {
			return err
		}
		r.From = n.bus.Control()
	default:
		return nil
	}
	return presence.RelayDisconnects(r)
}

// systemOptions returns options for the same server with other credentials.
func systemOptions(o bus.Options, creds string) bus.Options {
	o.Name += "/system"
	o = o.WithoutCredentials()
	o.Creds = creds
	return o
}
