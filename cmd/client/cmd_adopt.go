package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
)

func (a *app) adoptCommand() *cobra.Command {
	var epoch uint64
	c := &cobra.Command{
		Use:   "adopt MESH",
		Short: "Take a detached mesh back, and hold it",
		Long: `Take a mesh back from the system controller, and hold it as castnet up does: it ends with this
command. Its procs and actors keep running. A mesh that is not detached is refused with the name of
its owner; a past epoch is refused, too.

JSON and NDJSON: as castnet up.`,
		Example:           "  castnet adopt trainers\n  castnet adopt trainers --epoch 2",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: a.complete(detachedNames),
	}
	c.Flags().Uint64Var(&epoch, "epoch", 0, "`EPOCH` of the present owner, as printed by castnet spawn --detach (default: any)")
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := parseMesh(args[0], "adopt")
		if err != nil {
			return err
		}
		return a.withNet(c.Context(), func(net *mesh.Net) error { return a.adopt(c.Context(), net, t, epoch) })
	}
	return c
}

func (a *app) adopt(ctx context.Context, net *mesh.Net, t target, epoch uint64) error {
	procs, err := net.Adopt(ctx, t.name, epoch)
	if err != nil {
		return err
	}
	h := &heldMesh{app: a, spec: upSpec{name: procs.ID().Label()}, net: net, procs: procs}
	for _, id := range procs.Describe().Hosts {
		h.hosts = append(h.hosts, agent.HostInfo{ID: id, Label: id.Label()})
	}
	if err := h.printBanner(ctx); err != nil {
		return err
	}
	return h.attach(ctx, nil)
}

// detachedNames returns the labels of adoptable meshes.
func detachedNames(ctx context.Context, net *mesh.Net, _ []string) ([]string, error) {
	all, err := net.Detached(ctx)
	var names []string
	for _, d := range all {
		names = append(names, d.Mesh.Label())
	}
	return names, err
}
