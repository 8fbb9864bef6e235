package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

func whereCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "where MESH/RANK",
		Short: "Show the host of a rank",
		Long: `Show the host, the newest incarnation and the health of a rank of a world or of a live mesh.
The ID of any proc of that rank is accepted, too.

JSON: world (or the mesh), proc, host, health, reason.`,
		Example:           "  castnet where train/3\n  castnet where demo-7kd93x0b5m2qa/3.0",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.Ranks),
		RunE: func(c *cobra.Command, args []string) error {
			name, rank, err := parseLocation(args[0])
			if err != nil {
				return err
			}
			return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
				w, err := locate(ctx, conn, args[0], name, rank)
				if err != nil {
					return err
				}
				return showLocation(a.Printer, w)
			})
		},
	}
}

// locate asks the system controller for a rank, and the hosts for a mesh other than a world.
func locate(ctx context.Context, conn *mesh.Net, what, name string, rank int) (w system.Location, err error) {
	ref, err := system.Find(ctx, conn.Proc())
	if err == nil {
		w, err = system.Locate.Call(ctx, ref, what)
		if err == nil {
			return w, nil
		}
	}
	inv, p, missing := conn.InventoryFor(ctx, name)
	_, none := errors.AsType[*mesh.NotFoundError](missing)
	if none && err != nil && !errors.Is(err, system.ErrNoController) {
		// the controller's answer comes first
		return w, target.WithMissingHosts(inv, fmt.Errorf("%w; %w", err, missing))
	}
	if missing != nil {
		return w, missing
	}
	return locateInMesh(inv, p, rank)
}

// parseLocation parses name/rank, or a proc ID.
func parseLocation(what string) (name string, rank int, err error) {
	name, text, _ := strings.Cut(what, "/")
	if n, err := strconv.ParseUint(text, 10, 32); err == nil && subjects.CheckName("mesh", name) == nil {
		return name, int(n), nil
	}
	id, err := subjects.ParseProcID(what)
	if err != nil {
		return "", 0, cli.Usagef("where %q: want MESH/RANK, or the ID of a proc", what)
	}
	return id.Mesh.String(), int(id.Rank), nil
}

// locateInMesh returns the location of a rank in its newest generation, as its hosts report.
func locateInMesh(inv mesh.Inventory, p mesh.ProcMesh, rank int) (w system.Location, err error) {
	var found *agent.State
	for _, m := range inv.Meshes {
		for _, s := range m.States {
			if m.Procs.ID() == p.ID() && s.Rank == rank && (found == nil || s.Gen > found.Gen) {
				found = &s
			}
		}
	}
	desc := p.Describe()
	n := desc.Extent.NumRanks()
	if rank >= n {
		return w, cli.WithCode(
			cli.ExitNotFound,
			fmt.Errorf("mesh %s has no rank %d: it has %s", desc.ID, rank, text.Pluralize(n, "rank")),
		)
	}
	if found == nil { // of a world
		return w, target.WithMissingHosts(
			inv, fmt.Errorf("rank %d of mesh %s has no host: see castnet explain %s", rank, desc.ID, desc.ID.Label()),
		)
	}
	w = system.Location{
		World: desc.ID.Label(), Proc: desc.ProcID(rank, found.Gen), Health: system.HealthAlive,
		Reason: found.Status.Reason,
	}
	if found.Proc != nil {
		w.Host = found.Proc.Host
	}
	if found.Status.Phase.Terminal() {
		w.Health = system.HealthEnded
	}
	return w, nil
}

func showLocation(out *output.Printer, w system.Location) error {
	columns := []string{"mesh", "proc", "host", "health", "reason"}
	return output.Records(out, []system.Location{w}, columns, func(w system.Location) []string {
		return []string{w.World, w.Proc.String(), text.OrDash(w.Host), string(w.Health), text.OrDash(w.Reason)}
	})
}
