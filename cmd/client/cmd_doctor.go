package main

import (
	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/doctor"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
)

func doctorCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the bus, the permissions and the hosts",
		Long: `Check what castnet needs. Each line has a result and, if needed, a suggestion.

  connection    the server, the time to it and back, the user, TLS
  role          who this client is, what it may do and how long, and whether the server enforces it
  permissions   missing permissions of this user to publish and subscribe
  listeners     clients that receive messages of others, such as nats sub '>' or a stream
  gateways      other clients that take casts of plain NATS clients
  jetstream     whether worlds survive their hostd
  system        the system controller, which owns worlds
  hosts         heartbeats, slow hosts, and silent ones
  versions      versions of the client and the hosts, and whether the hosts run one program
  clocks        clock differences between the hosts and this machine
  logs          hosts that may lose output of procs: a full or read-only disk

A failed check gives exit code 1, or 4 if only some hosts do not answer; a warning gives 0. The
checks send a few messages to unused subjects and end within --timeout.

JSON: check, result (ok, warn or FAIL), found, suggestion.`,
		Example: "  castnet doctor\n  castnet doctor -o json | jq '.[] | select(.result != \"ok\")'",
		Args:    flags.WantArgs(0, 0),
		RunE:    func(c *cobra.Command, _ []string) error { return doctor.Run(c.Context(), a) },
	}
}
