package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

func (a *app) callCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "call MESH[region] ACTOR ENDPOINT [JSON]",
		Short: "Ask one actor, print its answer",
		Long: `Ask the actor of exactly one rank, and print its answer as JSON, whatever --output says.
ACTOR is a label or the full name; without JSON the message is empty.`,
		Example: `  castnet call 'demo[host=0,gpu=3]' counter add 5
  castnet call 'demo[host=0,gpu=3]' echo echo '{"text":"hello"}'`,
		Args:              wantArgs(3, 4),
		ValidArgsFunction: a.complete(liveNames, actorNames, endpointNames),
		RunE: func(c *cobra.Command, args []string) error {
			q, err := parseRequestArgs(args)
			if err != nil {
				return err
			}
			return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error { return a.call(ctx, net, q) })
		},
	}
}

func (a *app) call(ctx context.Context, net *mesh.Net, q requestArgs) error {
	p, err := q.target.resolve(ctx, net)
	if err != nil {
		return err
	}
	if n := p.region.NumRanks(); n != 1 {
		return cli.Usagef("call asks one rank, and %s has %d: want an index for each dimension of %s, or use cast", q.target, n, p.base)
	}
	m, err := p.actors(ctx, q.actor)
	if err != nil {
		return err
	}
	answer, err := q.endpoint.Call(ctx, m.Ref(0), q.message)
	if err != nil {
		return err
	}
	raw, err := encodeValue(answer)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", raw)
	return err
}
