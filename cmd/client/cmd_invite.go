package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// inviting holds the flags of castnet grow about an invite.
type inviting struct {
	host string // its label; "": add hosts at once
	ttl  time.Duration
	file string // for the invite; "": standard output
}

// register adds the flags to castnet grow. With --invite the command invites, and adds no hosts.
func (i *inviting) register(a *app.App, c *cobra.Command) {
	i.ttl = 10 * time.Minute
	c.Flags().StringVar(&i.host, "invite", "", "let the host with this `LABEL` join by itself, once")
	flags.Add(c.Flags(), &i.ttl, "for", "DURATION", "time for which the invite holds, at most 24h (default 10m)",
		flags.PositiveDuration)
	c.Flags().StringVar(&i.file, "out", "", "write the invite to this new `FILE`, which only you can read")
	addHosts := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if i.host != "" {
			return i.run(a, c, args)
		}
		if c.Flags().Changed("for") || i.file != "" {
			return cli.Usagef("grow: --for and --out are for an invite: want --invite with them")
		}
		return addHosts(c, args)
	}
}

// run invites the host.
func (i *inviting) run(a *app.App, c *cobra.Command, args []string) error {
	if len(args) > 1 || c.Flags().Changed("hosts") {
		return cli.Usagef("grow --invite %s: the mesh grows when that host joins: want no number and no --hosts",
			i.host)
	}
	if err := subjects.CheckLabel("host label", i.host); err != nil {
		return cli.Usagef("--invite: %w", err)
	}
	if i.ttl > agent.MaxInviteTTL {
		return cli.Usagef("--for %s: want at most %s", i.ttl, agent.MaxInviteTTL)
	}
	t, err := target.ParseMesh(args[0], c.Name())
	if err != nil {
		return err
	}
	return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
		p, err := t.Resolve(ctx, conn)
		if err != nil {
			return err
		}
		r := inviteRecord{Mesh: p.Procs.ID().String(), Host: i.host, ValidFor: i.ttl.String(), File: i.file}
		if i.file == "" {
			r.Invite, err = p.Procs.Invite(ctx, i.host, i.ttl)
		} else {
			err = writeSecret(i.file, func() (string, error) { return p.Procs.Invite(ctx, i.host, i.ttl) })
		}
		if err != nil {
			return err
		}
		return showInvite(a.Printer, r)
	})
}

// writeSecret writes a secret to a new file of the user alone. It makes the file before the secret,
// and leaves none after an error.
func writeSecret(path string, secret func() (string, error)) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return cli.Usagef("--out %s: the file exists: want a new one", path)
	}
	if err != nil {
		return cli.Usagef("--out: %w", err)
	}
	text, err := secret()
	if err == nil {
		_, err = fmt.Fprintln(f, text)
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// inviteRecord is an invite. Its JSON names are stable.
type inviteRecord struct {
	Mesh     string `json:"mesh"`
	Host     string `json:"host"`
	ValidFor string `json:"valid_for"`
	File     string `json:"file,omitempty"`
	Invite   string `json:"invite,omitempty"` // if no file has it
}

// showInvite prints the invite alone on stdout, so that a shell can pass it on.
func showInvite(out *output.Printer, r inviteRecord) error {
	if written, err := out.WriteDocument(r); written {
		return err
	}
	file := r.File
	if file == "" {
		file = "FILE"
		fmt.Fprintln(out.Stdout, r.Invite)
	}
	out.Notef("host %s may join %s within %s, once: hostd --label %s --join-mesh %s", r.Host, r.Mesh, r.ValidFor,
		r.Host, file)
	return nil
}
