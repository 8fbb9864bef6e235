package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
)

// authFlags are the flags for credentials that hostd makes itself.
type authFlags struct {
	authKey string
	authTTL time.Duration
}

func (f *authFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.authKey, "auth-key", "",
		"`FILE` with the key of this host, from castnet auth host add, in place of other credentials")
	fs.DurationVar(&f.authTTL, "auth-ttl", time.Hour,
		"life of the credentials that hostd makes for itself and its procs")
	fs.Lookup("auth-ttl").Hidden = true
}

// loadAuthKey reads and checks the key of this host; nil without --auth-key.
func (c *config) loadAuthKey() error {
	if c.authKey == "" {
		return nil
	}
	if c.conn.HasIdentity() {
		return cli.Usagef("--auth-key has the credentials: want it without --creds, --nkey, --user and --token")
	}
	if c.authTTL < time.Second || c.authTTL > time.Hour {
		return cli.Usagef("--auth-ttl is %s, want 1s to 1h", c.authTTL)
	}
	key, err := auth.ReadHostKey(c.authKey)
	if err != nil {
		return cli.Usagef("--auth-key: %w", err)
	}
	space, err := subjects.NewSpace(key.Root, key.Namespace)
	p := key.Host.Principal
	switch {
	case err != nil:
		return err
	case p.Label() != c.label:
		return cli.Usagef("--auth-key %s is of host %s: want --label %s, or the key of host %s",
			c.authKey, p.Label(), p.Label(), c.label)
	case space != c.space:
		return cli.Usagef("--auth-key %s is for %s, this host is in %s: want --namespace %s",
			c.authKey, space, c.space, space.Namespace())
	case c.systemSet && c.worldFlags.system && p.Role() != subjects.System:
		return cli.Usagef("--system wants the key of a system controller: castnet auth host add %s --system",
			c.label)
	}
	if !c.systemSet {
		c.worldFlags.system = p.Role() == subjects.System
	}
	c.hostKey = &key
	return nil
}

// checkIdentity refuses credentials of another principal than this host.
func (c *config) checkIdentity(o bus.Options) error {
	p, err := subjects.ParsePrincipal(o.UserName())
	if c.hostKey != nil || err != nil {
		return nil
	}
	return cli.Usagef("the credentials are of %s; a hostd makes its own, and those of its procs, "+
		"with the key of its host: castnet auth host add %s, then --auth-key", p, c.label)
}

// authenticate puts the host's own credentials in place of others.
func (c *config) authenticate(o bus.Options) bus.Options {
	if c.hostKey == nil {
		return o
	}
	o = o.WithoutCredentials()
	own := c.hostKey.Host
	if c.hostKey.HasPasswords() {
		o.User = own.Principal.String()
		o.Password = own.Password
	} else {
		o.UserJWT = func() (jwt, seed string, err error) { return c.hostKey.MintHost(c.authTTL) }
	}
	o.InboxPrefix = subjects.User{Principal: own.Principal}.Inbox()
	return o
}

// authenticateProcs gives procs credentials of their own.
func (c *config) authenticateProcs(o host.Options) host.Options {
	if c.hostKey == nil {
		return o
	}
	procs := c.hostKey.Procs
	o.Settings.InboxPrefix = subjects.User{Principal: procs.Principal}.Inbox()
	if c.hostKey.HasPasswords() {
		o.Settings.User = procs.Principal.String()
		o.Settings.Password = procs.Password
		return o
	}
	o.CredsLife = c.authTTL
	o.MintCreds = func() ([]byte, error) { return c.hostKey.MintProc(c.authTTL) }
	return o
}
