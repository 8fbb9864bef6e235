package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func (a *app) spawnCommand() *cobra.Command {
	f := upFlags{perHost: shape.Of("proc", 1)}
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

JSON and NDJSON: a line when the mesh is up (kind "up", mesh, label, extent, ranks, hosts, actor,
type, owner, and with --detach epoch, which castnet adopt takes); without --detach, then as castnet up.`,
		Example: `  castnet spawn trainers --per-host gpu=8 --actor echo --detach
  castnet spawn words --hosts n1,n2 --per-host 4 --command /opt/words/bin/words --actor worker --detach`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fs := c.Flags()
	addFlag(fs, &f.perHost, "per-host", "EXTENT", "procs on each host, such as 4 or gpu=4 (default 1)", readProcs)
	fs.StringVar(&hosts, "hosts", "", "`HOSTS` by label or ID, with commas between (default all)")
	fs.StringVar(&labels, "label", "", "only hosts with these labels: `KEY=VALUE`, several with commas between")
	f.register(c)
	fs.BoolVar(&detach, "detach", false, "hand the mesh over to the system controller, and exit")
	_ = c.RegisterFlagCompletionFunc("hosts", a.completeList(hostNames))
	_ = c.RegisterFlagCompletionFunc("label", a.complete(hostLabelPairs))
	c.RunE = func(c *cobra.Command, args []string) error {
		u, err := f.spec(args[0])
		if err != nil {
			return err
		}
		u.detach = detach
		if detach && u.actor != "" && u.policy.Recovery == mesh.Restart {
			return cli.Usagef(`--recovery restart with --detach: the actors of a detached mesh have no owner that could ` +
				`restart them: want --actor "", or no --detach`)
		}
		if hosts != "" {
			u.hosts.names = strings.Split(hosts, ",")
		}
		if labels != "" {
			u.hosts.labels, err = readLabels(labels)
			if err != nil {
				return err
			}
		}
		return a.withNet(c.Context(), func(net *mesh.Net) error { return a.spawn(c.Context(), net, u) })
	}
	return c
}

// readProcs parses the procs per host: an extent, or the size of one dimension.
func readProcs(text string) (shape.Extent, error) {
	if n, err := strconv.Atoi(text); err == nil {
		e := shape.Of("proc", n)
		return checkPerHost(e, e.Err())
	}
	return checkPerHost(shape.ParseExtent(text))
}

func (a *app) spawn(ctx context.Context, net *mesh.Net, u upSpec) error {
	h, err := a.startMesh(ctx, net, u)
	if err != nil || u.detach {
		return err
	}
	return h.attach(ctx, nil)
}
