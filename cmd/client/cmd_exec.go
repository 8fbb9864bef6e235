package main

import (
	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/hostexec"
	"github.com/castnet-io/castnet/mesh"
)

func execCommand(a *app.App) *cobra.Command {
	var s hostexec.Spec
	c := &cobra.Command{
		Use:   "exec [MESH[region]] -- COMMAND [ARG…]",
		Short: "Run a command on the hosts of a region, and merge equal output",
		Long: `Run a command for each rank of a region, on the host of the rank; with --hosts once on each of
these hosts; and without a mesh on every host. Equal results are shown once.

The command is a path, or a name that each host looks up; it does not run in a shell. It runs as the
user of hostd, without input, and is killed with its children after --timeout, or by Ctrl-C.
The last 64 KiB of each output are shown. For a rank it finds in its environment
CASTNET_RANK, CASTNET_PROC_ID and, while the rank lives, CASTNET_PID.

A host runs commands only where its operator allows that: hostd --allow-exec, or host.allow-exec: on.

The exit code is the highest of all: that of the command, 128 plus the signal that killed it, 124
after --timeout, 126 if a host refuses it, 125 if a host does not answer or a rank has no host.

JSON: region, ranks (both of a mesh alone), hosts, exit_code, signal, timed_out, stdout, stderr,
dropped_bytes (omitted earlier ones), error.`,
		Example: `  castnet exec -- uptime
  castnet exec --label zone=a -- df -h /var
  castnet exec demo --hosts -- nvidia-smi -L
  castnet exec 'demo[host=0:2]' -- sh -c 'grep VmRSS /proc/$CASTNET_PID/status'`,
		ValidArgsFunction: a.Complete(candidates.Meshes),
	}
	flags.Add(
		c.Flags(), &s.Hosts.Labels, "label", "KEY=VALUE",
		"without a mesh: only hosts with these labels; several with commas between", flags.Labels,
	)
	c.Flags().BoolVar(&s.PerHost, "hosts", false, "once per host of the region instead of once per rank")
	_ = c.RegisterFlagCompletionFunc("label",
		func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return a.Complete(candidates.HostLabels)(c, nil, prefix)
		})
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := s.Parse(args, c.ArgsLenAtDash(), a.Conn.Timeout); err != nil {
			return err
		}
		return a.WithNet(c.Context(), func(conn *mesh.Net) error { return hostexec.Run(c.Context(), a, conn, s) })
	}
	return c
}
