package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func spawnCommand(a *app.App) *cobra.Command {
	f := heldmesh.Flags{PerHost: shape.Of("proc", 1)}
	var hosts, labels string
	var detach bool
	c := &cobra.Command{
		Use:   "spawn NAME",
		Short: "Start a mesh on some hosts, and leave it running with --detach",
		Long: `Start a mesh of procs on the named hosts, or on all that take procs, with an actor in each.
Hosts that are cordoned, drained or leaving are skipped and listed. Without --detach this command
holds the mesh, as castnet up does. With --detach the system controller owns it: it renews the lease
until castnet stop ends the mesh, or castnet adopt takes it back. With JetStream the mesh survives a
change of the system controller.

No other live mesh or world may have the name.

JSON and NDJSON: a line when the mesh is up (kind "up", mesh, label, extent, ranks, hosts, spares, actor,
type, owner, and with --detach epoch, which castnet adopt takes); without --detach, then as castnet up.`,
		Example: `  castnet spawn trainers --per-host gpu=8 --actor echo --detach
  castnet spawn words --hosts n1,n2 --per-host 4 --command /opt/words/bin/words --actor worker --detach`,
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fs := c.Flags()
	flags.Add(
		fs, &f.PerHost, "per-host", "EXTENT", "procs on each host, such as 4 or gpu=4 (default 1)", readProcs,
	)
	fs.StringVar(&hosts, "hosts", "", "`HOSTS` by label or ID, with commas between (default all)")
	fs.StringVar(&labels, "label", "", "only hosts with these labels: `KEY=VALUE`, several with commas between")
	f.Register(c)
	fs.BoolVar(&detach, "detach", false, "hand the mesh over to the system controller, and exit")
	_ = c.RegisterFlagCompletionFunc("hosts", a.CompleteList(candidates.Hosts))
	_ = c.RegisterFlagCompletionFunc("label", a.Complete(candidates.HostLabels))
	c.RunE = func(c *cobra.Command, args []string) error {
		u, err := f.Spec(args[0])
		if err != nil {
			return err
		}
		u.Detach = detach
		if detach && u.Actor != "" && u.RestartPolicy.Restart == mesh.Transient {
			return cli.Usagef(
				`--restart transient with --detach: the actors of a detached mesh have no owner that could ` +
					`restart them: want --actor "", or no --detach`)
		}
		if hosts != "" {
			u.Hosts.Names = strings.Split(hosts, ",")
		}
		if labels != "" {
			u.Hosts.Labels, err = flags.Labels(labels)
			if err != nil {
				return err
			}
		}
		return a.WithOwnMesh(c.Context(), func(conn *mesh.Net) error {
			return heldmesh.Spawn(c.Context(), a, conn, u)
		})
	}
	return c
}

// readProcs parses the procs per host: an extent, or the size of one dimension.
func readProcs(text string) (shape.Extent, error) {
	if n, err := strconv.Atoi(text); err == nil {
		e := shape.Of("proc", n)
		return heldmesh.CheckPerHost(e, e.Err())
	}
	return heldmesh.CheckPerHost(shape.ParseExtent(text))
}
