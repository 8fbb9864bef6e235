package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/shape"
)

func upCommand(a *app.App) *cobra.Command {
	f := heldmesh.Flags{PerHost: shape.Of("gpu", 4)}
	c := &cobra.Command{
		Use:   "up [NAME]",
		Short: "Start a mesh on every host and hold it",
		Long: `Start a mesh of procs on every host that takes procs, with an actor in each, and hold it. Hosts
that are cordoned, drained or leaving are skipped and listed. The mesh ends with this command, at
Ctrl-C or by castnet stop; castnet spawn --detach starts one that continues. If this command is
killed, the procs end when their lease expires.

Without --command, procs run the hosts' built-in actors: counter (params: an integer; endpoints
add, get, reset), echo (endpoint echo), and plain (params: {"subject":"work.{rank}"}; endpoints
request, publish). Any program that replies on that subject serves a rank of plain. With
--command, procs run a Go program whose main calls proc.Main, no script: a proc that does not call
it is killed after proc.ready-timeout. The program must have the same absolute path on every host,
and be allowed there (hostd --allow).

If no bus is named or found, a hostd is started, and stopped with the mesh.

JSON and NDJSON: a line when the mesh is up (kind "up", mesh, label, extent, ranks, hosts,
spares, actor, type), then a line for each proc or actor that ends, as in castnet's events.`,
		Example: `  castnet up
  castnet up trainers --per-host gpu=8 --actor echo
  castnet up demo --per-host zone=2,gpu=4 --actor counter --params 100
  castnet up scripts --actor plain --params '{"subject":"work.{rank}"}'
  castnet up words --command /opt/words/bin/words --actor worker --params '{"top":20}'`,
		Args:              flags.WantArgs(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fs := c.Flags()
	flags.Add(
		fs, &f.PerHost, "per-host", "EXTENT", "procs on each host, such as 4 or gpu=4 (default gpu=4)", readProcs,
	)
	f.Register(c)
	fs.BoolVar(&f.NoHostd, "no-hostd", false, "do not start a hostd if no bus is found")
	c.RunE = func(c *cobra.Command, args []string) error {
		u, err := f.Spec(slices.Concat(args, []string{"demo"})[0])
		if err != nil {
			return err
		}
		return heldmesh.Run(c.Context(), a, u)
	}
	return c
}
