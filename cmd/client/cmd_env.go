package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
)

func envCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print how to reach the bus, for a shell",
		Long: `Print the variables that reach the bus of this client: its URL and the credentials. The nats
command and the clients of castnet read them. They hold secrets. Nothing is sent.

JSON: an object of the variables.`,
		Example: "  eval \"$(castnet env)\"\n  nats sub 'castnet.v1.default.ev.>'",
		Args:    flags.WantArgs(0, 0),
		RunE:    func(*cobra.Command, []string) error { return showEnvironment(a) },
	}
}

// variable is an environment variable for the bus connection.
type variable struct{ name, value string }

// envVariables returns the variables that bus.FromEnv reads as o, without empty ones.
func envVariables(o bus.Options) (all []variable) {
	for _, v := range []variable{
		{"NATS_URL", o.URL}, {"NATS_CREDS", o.Creds}, {"NATS_NKEY", o.NKey}, {"NATS_USER", o.User},
		{"NATS_PASSWORD", o.Password}, {"NATS_TOKEN", o.Token}, {"NATS_JWT", o.JWT}, {"NATS_SEED", o.Seed},
		{"NATS_CERT", o.CertFile}, {"NATS_KEY", o.KeyFile}, {"NATS_CA", o.CAFile},
		{"NATS_TLS_FINGERPRINT", o.Fingerprint}, {"NATS_INBOX_PREFIX", o.InboxPrefix},
	} {
		if v.value != "" {
			all = append(all, v)
		}
	}
	return all
}

func showEnvironment(a *app.App) error {
	o, err := a.Conn.Options(a.Getenv)
	if err != nil {
		return err
	}
	if o.URL == "" {
		return cli.WithCode(
			cli.ExitConnection,
			errors.New(
				"no bus is named, and no hostd of this user runs here: start a hostd, or name a server with --server",
			),
		)
	}
	vars := envVariables(o)
	if a.Format != output.Table {
		document := map[string]string{}
		for _, v := range vars {
			document[v.name] = v.value
		}
		_, err := a.WriteDocument(document)
		return err
	}
	var b strings.Builder
	for _, v := range vars {
		fmt.Fprintf(&b, "export %s=%s\n", v.name, text.ShellQuote(v.value))
	}
	_, err = fmt.Fprint(a.Stdout, b.String())
	return err
}
