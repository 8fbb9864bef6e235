package cli

import (
	"strings"

	"github.com/nats-io/jsm.go/natscontext"
)

// tlsFirst is a setting of contexts that has no variable.
const tlsFirst = "tlsfirst"

// context reads the NATS context that applies (CLI-2); without one, nothing is set.
//
// The package that reads them looks for XDG_CONFIG_HOME in the process's own environment.
func (c *Connection) context(getenv func(string) string) (settings, error) {
	name := c.contextName(getenv)
	if name == "" && first(c.Server, getenv("NATS_URL")) == "" {
		name = natscontext.SelectedContext()
	}
	if name == "" {
		return nil, nil
	}
	if !natscontext.IsKnown(name) {
		known := strings.Join(natscontext.KnownContexts(), ", ")
		return nil, Usagef("NATS context %q does not exist; there is %s", name, first(known, "none"))
	}
	nc, err := natscontext.New(name, true)
	if err != nil {
		return nil, Usagef("NATS context %q: %w", name, err)
	}
	if proxy := nc.SocksProxy(); proxy != "" && proxy != "none" {
		return nil, Usagef("NATS context %q goes through the proxy %s: want one that connects directly", name, proxy)
	}
	set := settings{
		"NATS_URL": nc.ServerURL(), "NATS_CREDS": nc.Creds(), "NATS_NKEY": nc.NKey(),
		"NATS_USER": nc.User(), "NATS_PASSWORD": nc.Password(), "NATS_TOKEN": nc.Token(),
		"NATS_JWT": nc.UserJWT(), "NATS_SEED": nc.UserSeed(), "NATS_CERT": nc.Certificate(),
		"NATS_KEY": nc.Key(), "NATS_CA": nc.CA(), "NATS_INBOX_PREFIX": nc.InboxPrefix(),
	}
	if nc.TLSHandshakeFirst() {
		set[tlsFirst] = "true"
	}
	return set, nil
}
