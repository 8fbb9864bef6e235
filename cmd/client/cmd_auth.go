package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/subjects"
)

// authDir is the directory of an authority, and the App that reaches its servers.
type authDir struct {
	*app.App
	dir string
}

func authCommand(a *app.App) *cobra.Command {
	d := &authDir{App: a}
	c := flags.GroupCommand(
		&cobra.Command{
			Use: "auth COMMAND", Short: "Make keys and credentials for people and hosts",
			Long: `Make the credentials of hosts and people for a NATS server of your own, and its configuration.
They are kept in a directory. Each host gets a key, with which its hostd makes credentials of an hour
for itself and its procs. People get credentials that end.

A command that changes what servers accept also reports it to the server of --server or NATS_URL.

On hostd's own server there is no directory: mint and host add make keys from its token, for
--token-file, and revoke ends one.`,
		},
		d.initCommand(), d.hostCommand(), d.mintCommand(), d.listCommand(), d.revokeCommand(), d.confCommand(),
		d.pushCommand(),
	)
	c.PersistentFlags().StringVar(&d.dir, "dir", "",
		"`DIR` with the keys (default $XDG_CONFIG_HOME/castnet/auth)")
	return c
}

// path is the directory of the authority.
func (d *authDir) path() (string, error) {
	if d.dir != "" {
		return d.dir, nil
	}
	dir, err := auth.DefaultDir(d.Getenv)
	if err != nil {
		return "", cli.Usagef("%w", err)
	}
	return dir, nil
}

// update changes the authority, and reports a changed account to the servers.
func (d *authDir) update(ctx context.Context, change func(*auth.Authority) error) error {
	dir, err := d.path()
	if err != nil {
		return err
	}
	var changed *auth.Authority
	err = auth.Update(dir, func(a *auth.Authority) error {
		before := a.Changes
		if err := change(a); err != nil {
			return err
		}
		if a.Changes != before {
			changed = a
		}
		return nil
	})
	if err != nil || changed == nil {
		return err
	}
	if !d.Conn.IsConfigured(d.Getenv) {
		d.Notef("servers that run do not know it yet: castnet auth push --server URL")
		return nil
	}
	if err := d.push(ctx, changed); err != nil {
		return fmt.Errorf("%w: the change is in %s; repeat with castnet auth push", err, dir)
	}
	return nil
}

// push reports the account to the servers.
func (d *authDir) push(ctx context.Context, a *auth.Authority) error {
	o, err := d.Conn.Options(d.Getenv)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.Conn.Timeout)
	defer cancel()
	return d.OrInterrupted(ctx, auth.Push(ctx, a, o))
}

// writeSecret writes to a private file, or to stdout.
func (d *authDir) writeSecret(file string, data []byte) error {
	if file == "" {
		_, err := d.Stdout.Write(data)
		return err
	}
	return auth.WritePrivate(file, data)
}

func (d *authDir) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Make the keys of a new server", Args: flags.WantArgs(0, 0),
		Long: `Make the keys of an operator, of its system account and of an account for castnet, in a directory
that has none. Everybody who can read the directory can make any credentials.`,
		Example: "  castnet auth init\n  castnet auth conf > nats.conf",
		RunE: func(*cobra.Command, []string) error {
			dir, err := d.path()
			if err != nil {
				return err
			}
			space, err := subjects.NewSpace("", d.Conn.Namespace)
			if err != nil {
				return err
			}
			if err := auth.Init(dir, space); err != nil {
				return err
			}
			d.Notef("the keys are in %s", dir)
			return nil
		},
	}
}

func (d *authDir) hostCommand() *cobra.Command {
	return flags.GroupCommand(
		&cobra.Command{Use: "host COMMAND", Short: "Make and remove the keys of hosts"},
		d.hostAddCommand(), d.hostRemoveCommand(),
	)
}

func (d *authDir) hostAddCommand() *cobra.Command {
	var system bool
	var out string
	c := &cobra.Command{
		Use: "add NAME", Short: "Make the key of a host", Args: flags.WantArgs(1, 1),
		Long: `Make the key of the host with this label, and print it, or write it to a file. Bring the file to the
host for hostd --auth-key. It is a secret: with it one can be this host and its procs, and nothing else. A
key for hostd's own server is for hostd --token-file.`,
		Example: "  castnet auth host add n07 --out n07.key\n  castnet auth host add n01 --system --out n01.key",
		RunE: func(c *cobra.Command, args []string) error {
			own, err := d.own(c.Context())
			if err != nil {
				return err
			}
			if own != nil {
				return d.addOwnHost(own, args[0], system, out)
			}
			return d.update(c.Context(), func(a *auth.Authority) error {
				key, err := a.AddHost(args[0], system)
				if err != nil {
					return err
				}
				data, err := key.Text()
				if err != nil {
					return err
				}
				return d.writeSecret(out, data)
			})
		},
	}
	c.Flags().BoolVar(&system, "system", false, "the host may become the system controller")
	c.Flags().StringVar(&out, "out", "", "write the key to `FILE` for its owner only (default stdout)")
	return c
}

func (d *authDir) hostRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Take a host's key from the account", Args: flags.WantArgs(1, 1),
		Long: `Take the key of a host from the account. Servers close the connections of its hostd and its procs,
and accept none of its credentials any more.`,
		Example: "  castnet auth host rm n07",
		RunE: func(c *cobra.Command, args []string) error {
			return d.update(c.Context(), func(a *auth.Authority) error { return a.RemoveHost(args[0]) })
		},
	}
}

func (d *authDir) mintCommand() *cobra.Command {
	var role subjects.Role
	var life time.Duration
	var out string
	c := &cobra.Command{
		Use: "mint NAME", Short: "Make credentials of a person", Args: flags.WantArgs(1, 1),
		Long: `Make credentials of a person or a service, and print them, or write them to a file for --creds or
NATS_CREDS. A client reads the file again before they end, so a new one in its place extends them.

Roles: program (owns meshes), operator (also acts on hosts and on the meshes of others), observer (only
reads), caster (a plain NATS client that casts through gateways).`,
		Example: "  castnet auth mint --role program alice --out alice.creds\n" +
			"  castnet auth mint --role operator bob --for 8h --out bob.creds",
		RunE: func(c *cobra.Command, args []string) error {
			if role == 0 {
				return cli.Usagef("auth mint: want --role program, operator, observer or caster")
			}
			own, err := d.own(c.Context())
			if err != nil {
				return err
			}
			if own != nil {
				key, err := own.mint(role, args[0], life)
				if err != nil {
					return err
				}
				return d.writeKey(key, out)
			}
			return d.update(c.Context(), func(a *auth.Authority) error {
				creds, user, err := a.Mint(role, args[0], life)
				if err != nil {
					return err
				}
				d.Notef("%s until %s", user.Principal, user.Expires.Format(time.RFC3339))
				return d.writeSecret(out, creds)
			})
		},
	}
	flags.Add(c.Flags(), &role, "role", "ROLE", "program, operator, observer or caster", subjects.ParseRole)
	c.Flags().DurationVar(&life, "for", time.Hour, "`TIME` until they end")
	c.Flags().StringVar(&out, "out", "", "write them to `FILE` for its owner only (default stdout)")
	return c
}

// authRow is a key or a user as listed, without its secret.
type authRow struct {
	Principal string     `json:"principal"`
	Role      string     `json:"role"`
	Kind      string     `json:"kind"` // key or user
	Key       string     `json:"key"`
	Made      time.Time  `json:"made"`
	Expires   *time.Time `json:"expires,omitempty"`
	Status    string     `json:"status"`
}

// authRows are all keys and users.
func authRows(a *auth.Authority) (rows []authRow) {
	for _, k := range a.Keys {
		status := "valid"
		if !k.Revoked.IsZero() {
			status = "revoked"
		}
		rows = append(rows,
			authRow{k.Principal.String(), k.Principal.Role().String(), "key", k.Public, k.Made, nil, status})
		for _, u := range a.Users {
			if u.Signer == k.Public {
				rows = append(rows, authRow{u.Principal.String(), u.Principal.Role().String(), "user", u.Public, u.Made,
					&u.Expires, userStatus(u, k)})
			}
		}
	}
	return rows
}

func userStatus(u auth.User, k auth.Key) string {
	if !u.Revoked.IsZero() || !k.Revoked.IsZero() {
		return "revoked"
	}
	if u.Expires.Before(time.Now()) {
		return "expired"
	}
	return "valid"
}

func (d *authDir) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List keys and credentials", Args: flags.WantArgs(0, 0),
		Long: `List the keys of principals, and below each the credentials that castnet auth mint made. Those that
hostds make are not listed. Ended ones are listed for 30 days.

JSON: principal, role, kind (key or user), key (public), made, expires, status (valid, expired or
revoked).`,
		Example: "  castnet auth ls",
		RunE: func(*cobra.Command, []string) error {
			dir, err := d.path()
			if err != nil {
				return err
			}
			a, err := auth.Read(dir)
			if err != nil {
				return err
			}
			return showKeys(d.Printer, a)
		},
	}
}

func showKeys(out *output.Printer, a *auth.Authority) error {
	columns := []string{"principal", "role", "kind", "status", "expires", "key"}
	return output.Records(out, authRows(a), columns, func(r authRow) []string {
		expires := "-"
		if r.Expires != nil {
			expires = r.Expires.Format(time.RFC3339)
		}
		return []string{r.Principal, r.Role, r.Kind, r.Status, expires, r.Key}
	})
}

func (d *authDir) revokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME|KEY", Short: "End a principal, or single credentials", Args: flags.WantArgs(1, 1),
		Long: `End all credentials of a principal such as u-alice, or those with a public key of castnet auth ls. On
hostd's own server, end a key, named by its file or by the serial that castnet auth mint shows.
Servers close their connections within a second.`,
		Example: "  castnet auth revoke u-alice\n  castnet auth revoke bob.key",
		RunE: func(c *cobra.Command, args []string) error {
			own, err := d.own(c.Context())
			if err != nil {
				return err
			}
			if own != nil {
				ctx, cancel := context.WithTimeout(c.Context(), d.Conn.Timeout)
				defer cancel()
				return d.OrInterrupted(c.Context(), own.revoke(ctx, args[0]))
			}
			return d.update(c.Context(), func(a *auth.Authority) error { return a.Revoke(args[0]) })
		},
	}
}

func (d *authDir) pushCommand() *cobra.Command {
	return &cobra.Command{
		Use: "push", Short: "Report the account to the server", Args: flags.WantArgs(0, 0),
		Long: `Report the account with its keys to the server of --server or NATS_URL, which tells the others of its
cluster.`,
		Example: "  castnet auth push --server nats://nats.example:4222",
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := d.path()
			if err != nil {
				return err
			}
			a, err := auth.Read(dir)
			if err != nil {
				return err
			}
			return d.push(c.Context(), a)
		},
	}
}

func (d *authDir) confCommand() *cobra.Command {
	var server auth.Server
	var users []string
	var passwords string
	c := &cobra.Command{
		Use: "conf", Short: "Print the configuration of the server", Args: flags.WantArgs(0, 0),
		Long: `Print a configuration of nats-server that accepts the credentials of the directory.

With --users it needs no directory: it has these users, with random passwords, and the permissions of
their principals. Passwords are written to files, u-alice.password for NATS_USER=u-alice. A host, as
h-NAME or s-NAME, gets NAME.key for hostd --auth-key.`,
		Example: "  castnet auth conf --data /var/lib/nats > nats.conf\n" +
			"  castnet auth conf --users s-n01,h-n02,u-alice --passwords secrets > nats.conf",
		RunE: func(*cobra.Command, []string) error {
			if (len(users) == 0) != (passwords == "") {
				return cli.Usagef("auth conf: --users and --passwords go together")
			}
			if len(users) > 0 {
				return d.writeFixedUsers(server, users, passwords)
			}
			dir, err := d.path()
			if err != nil {
				return err
			}
			a, err := auth.Read(dir)
			if err != nil {
				return err
			}
			conf, err := a.Conf(server)
			if err == nil {
				_, err = fmt.Fprint(d.Stdout, conf)
			}
			return err
		},
	}
	c.Flags().StringVar(&server.Listen, "listen", "127.0.0.1:4222", "`HOST:PORT` of the server")
	c.Flags().StringVar(&server.Data, "data", "nats", "`DIR` of the server for accounts and JetStream")
	c.Flags().StringSliceVar(&users, "users", nil, "print fixed users, as `PRINCIPAL`,…")
	c.Flags().StringVar(&passwords, "passwords", "", "write the passwords of --users to files in `DIR`")
	return c
}

// writeFixedUsers prints a configuration with fixed users, and writes their secrets.
func (d *authDir) writeFixedUsers(server auth.Server, users []string, dir string) error {
	space, err := subjects.NewSpace("", d.Conn.Namespace)
	if err != nil {
		return err
	}
	fixed, err := auth.NewFixedUsers(space, server, users)
	if err != nil {
		return cli.Usagef("--users: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var written []string
	write := func(name string, data []byte) error {
		written = append(written, name)
		return auth.WritePrivate(filepath.Join(dir, name), data)
	}
	for _, user := range users {
		if err := write(user+".password", []byte(fixed.Passwords[user]+"\n")); err != nil {
			return err
		}
	}
	for _, key := range fixed.Hosts {
		data, err := key.Text()
		if err != nil {
			return err
		}
		if err := write(key.Host.Principal.Label()+".key", data); err != nil {
			return err
		}
	}
	d.Notef("wrote %s in %s: %s", text.Pluralize(len(written), "file"), dir, strings.Join(written, " "))
	_, err = fmt.Fprint(d.Stdout, fixed.Conf)
	return err
}
