package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

func actorsCommand(a *app.App) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "actors MESH[region]",
		Short: "List the actors in the procs of a mesh",
		Long: `List the actors in each proc of a mesh, or of a region of it: mailbox, messages handled,
and the endpoints of the actors. With --all, also castnet's own actors there.

JSON: rank, point, actor, type, status, reason, queued, handled, current, endpoints.`,
		Example:           "  castnet actors demo\n  castnet actors 'demo[host=0]' --output json",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.Meshes),
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also the procs' own agents")
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := target.Parse(args[0])
		if err != nil {
			return err
		}
		return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
			p, err := t.Resolve(ctx, conn)
			if err != nil {
				return err
			}
			records, err := inspect.Actors(ctx, p.Procs, all)
			return errors.Join(showActors(a.Printer, records), err)
		})
	}
	return c
}

func showActors(out *output.Printer, records []inspect.Actor) error {
	columns := []string{"rank", "point", "actor", "type", "status", "queued", "handled", "reason"}
	err := output.Records(out, records, columns, func(r inspect.Actor) []string {
		return []string{
			strconv.Itoa(r.Rank), r.Point, r.Actor, text.OrDash(r.Type), out.PaintStatus(r.Status),
			strconv.Itoa(r.Queued), strconv.FormatUint(r.Handled, 10), text.Reason(r.Reason),
		}
	})
	if err != nil || out.Format != output.Table {
		return err
	}
	endpoints := map[string][]string{}
	for _, r := range records {
		endpoints[r.Type] = r.Endpoints
	}
	for _, t := range slices.Sorted(maps.Keys(endpoints)) {
		if len(endpoints[t]) > 0 {
			out.Notef("endpoints of %s: %s", t, strings.Join(endpoints[t], "  "))
		}
	}
	return nil
}
