package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/subjects"
)

func meshesCommand(a *app.App) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "meshes",
		Short: "List all meshes and worlds, and who owns them",
		Long: `List live meshes and worlds; with --all also ended ones that their hosts remember. The owner is a
program, with which the mesh ends, or the system, which owns worlds and detached meshes. The owner is
none if it does not answer: then the mesh ends with its lease. If a host does not answer, the meshes
with a rank on it are unknown, and the exit code is 4.

JSON: mesh, label, kind (mesh or world), extent, ranks, running, phase, hosts, owner (kind: program,
system or none; id, epoch, reason), since.`,
		Example: "  castnet meshes\n  castnet meshes -o json",
		Args:    flags.WantArgs(0, 0),
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also meshes that have ended")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
			records, missing, err := inspect.Meshes(ctx, conn, all)
			if err != nil {
				return err
			}
			if len(records) == 0 && missing == nil {
				a.Notef("no meshes: `castnet up` starts one")
			}
			if missing != nil && !errors.Is(ctx.Err(), context.Canceled) {
				missing = cli.WithCode(cli.ExitPartial, missing)
			}
			return errors.Join(showMeshes(a.Printer, records), missing)
		})
	}
	return c
}

func showMeshes(out *output.Printer, records []inspect.MeshSummary) error {
	columns := []string{"mesh", "kind", "extent", "running", "hosts", "owner", "phase", "age"}
	return output.Records(out, records, columns, func(r inspect.MeshSummary) []string {
		var hosts []string
		for _, h := range r.Hosts {
			hosts = append(hosts, text.HostLabel(h))
		}
		since := "-"
		if r.Since != nil {
			since = text.Age(time.Since(*r.Since))
		}
		return []string{
			r.Mesh, r.Kind, r.Extent, fmt.Sprintf("%d/%d", r.Running, r.Ranks), text.OrDash(
				text.Shorten(strings.Join(hosts, ","), 40),
			), ownerText(out, r.Owner),
			out.PaintStatus(r.Phase), since,
		}
	})
}

// ownerText formats an owner: a program by its label.
func ownerText(out *output.Printer, o inspect.MeshOwner) string {
	id, err := subjects.ParseActorID(o.ID)
	if o.Kind == inspect.OwnerNone {
		return out.Paint(output.Red, o.Kind)
	}
	if o.Kind == inspect.OwnerProgram && err == nil {
		return id.Proc.Mesh.String()
	}
	return o.Kind
}
