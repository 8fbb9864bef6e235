package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

func callCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "call MESH[region] ACTOR ENDPOINT [JSON]",
		Short: "Call one actor and print its reply",
		Long: `Ask the actor of exactly one rank, and print its answer as JSON, whatever --output says.
ACTOR is a label or the full name; without JSON the message is empty.`,
		Example: `  castnet call 'demo[host=0,gpu=3]' counter add 5
  castnet call 'demo[host=0,gpu=3]' echo echo '{"text":"hello"}'`,
		Args:              flags.WantArgs(3, 4),
		ValidArgsFunction: a.Complete(candidates.Meshes, candidates.Actors, candidates.Endpoints),
		RunE: func(c *cobra.Command, args []string) error {
			q, err := target.ParseRequest(args)
			if err != nil {
				return err
			}
			return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
				return callActor(ctx, a.Printer, conn, q)
			})
		},
	}
}

func callActor(ctx context.Context, out *output.Printer, conn *mesh.Net, q target.Request) error {
	p, err := q.Target.Resolve(ctx, conn)
	if err != nil {
		return err
	}
	if n := p.Region.NumRanks(); n != 1 {
		return cli.Usagef(
			"call asks one rank, and %s has %d: want an index for each dimension of %s, or use cast", q.Target, n,
			p.Base,
		)
	}
	m, err := p.Actors(ctx, q.Actor)
	if err != nil {
		return err
	}
	answer, err := q.Endpoint.Call(ctx, m.Ref(0), q.Message)
	if err != nil {
		return err
	}
	raw, err := target.EncodeValue(answer)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out.Stdout, "%s\n", raw)
	return err
}
