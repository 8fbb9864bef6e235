package main

import (
	"context"
	"errors"
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

func typesCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "types MESH[region]",
		Short: "List the actor types of a mesh, and their endpoints",
		Long: `List the actor types that the procs of a mesh know, with the labels of their actors and the endpoints
that castnet call and castnet cast take. A type without an actor has no known endpoints.

JSON: type, actors (labels), running (actors), endpoints (name, message and answer).`,
		Example:           "  castnet types demo\n  castnet types demo -o json",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.Meshes),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := target.Parse(args[0])
			if err != nil {
				return err
			}
			return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
				p, err := t.Resolve(ctx, conn)
				if err != nil {
					return err
				}
				types, err := inspect.Types(ctx, conn, p.Procs)
				if types == nil {
					return err
				}
				return errors.Join(showTypes(a.Printer, types), err)
			})
		},
	}
}

func showTypes(out *output.Printer, types []inspect.ActorType) error {
	columns := []string{"type", "actors", "running", "endpoints"}
	return output.Records(out, types, columns, func(t inspect.ActorType) []string {
		return []string{
			t.Type, text.OrDash(strings.Join(t.Actors, " ")), strconv.Itoa(t.Running),
			text.OrDash(strings.Join(t.Endpoints, "  ")),
		}
	})
}
