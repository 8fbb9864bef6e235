package main

import (
	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/mesh"
)

func adoptCommand(a *app.App) *cobra.Command {
	var epoch uint64
	c := &cobra.Command{
		Use:   "adopt MESH",
		Short: "Take a detached mesh back, and hold it",
		Long: `Take a mesh back from the system controller, and hold it as castnet up does: it ends with this
command. Its procs and actors keep running. A mesh that is not detached is refused with the name of
its owner; a past epoch is refused, too.

JSON and NDJSON: as castnet up.`,
		Example:           "  castnet adopt trainers\n  castnet adopt trainers --epoch 2",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.Detached),
	}
	c.Flags().Uint64Var(
		&epoch, "epoch", 0, "`EPOCH` of the present owner, as printed by castnet spawn --detach (default: any)",
	)
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := target.ParseMesh(args[0], "adopt")
		if err != nil {
			return err
		}
		return a.WithOwnMesh(c.Context(), func(conn *mesh.Net) error {
			return heldmesh.Adopt(c.Context(), a, conn, t, epoch)
		})
	}
	return c
}
