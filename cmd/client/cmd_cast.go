package main

import (
	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/casting"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/mesh"
)

func castCommand(a *app.App) *cobra.Command {
	s := &casting.Spec{}
	c := &cobra.Command{
		Use:   "cast MESH[region] ACTOR ENDPOINT [JSON]",
		Short: "Cast to every actor of a region",
		Long: `Cast one message to the actors of a region: one publish, whatever their number. A union of
regions, such as 'demo[host=0 | gpu=3]', is one cast too. --collect selects how answers are collected:

  stream   printed on arrival, each with its rank's coordinates (the default)
  gather   printed together, by rank
  reduce   folded into one value on the way, by the reducer of --reduce
  send     none: the message is sent without a wait for answers
  choose   the answer of any one live rank

The last line, on stderr, has the coverage. If a rank gave no value, the exit code is 4.

--one-per takes any dimension of the mesh, such as host or gpu.

Built-in reducers: sum, min, max, all, any, concat, merge(sum); and of another type than the
answers: count, collect, count-by, top(N), bottom(N), histogram(BOUND,…). An endpoint may declare
others.

--batch-size, --one-per and --canary ask batch by batch, each after the answers of the one
before; then --timeout applies to each batch. --sample draws the same ranks for the same --seed, so
--dry-run shows the ranks that will be asked.

JSON: {"replies":[{rank, point, value, ms}], "coverage":{asked, answered, failed,
failed_region, missing, missing_region, not_asked, not_asked_region, p50_ms, p99_ms}}; reduce
{"value", "reducer", "coverage"}; send {asked, sent, failed, failed_region}; choose {value};
--dry-run rank, point, host, batch; --print-nats {command}. NDJSON: one reply a line as it arrives,
failed ones with error in place of value, then the coverage.`,
		Example: `  castnet cast demo counter add 1
  castnet cast 'demo[gpu=0:2]' counter get
  castnet cast 'demo[host=0 | gpu=3]' counter get --reduce sum
  castnet cast demo counter get --reduce sum
  castnet cast demo counter get --reduce 'top(3)'
  castnet cast demo counter get --collect gather -o json
  castnet cast demo counter get -o ndjson | head -1
  castnet cast demo counter reset --one-per host --canary --batch-delay 5s --max-failures 2
  castnet cast demo counter add 1 --sample 10% --seed 7 --dry-run
  castnet cast demo counter add 1 --reduce sum --print-nats`,
		Args:              flags.WantArgs(3, 4),
		ValidArgsFunction: a.Complete(candidates.Meshes, candidates.Actors, candidates.Endpoints),
	}
	s.Register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := s.Parse(c, args, a.Conn.Timeout); err != nil {
			return err
		}
		if s.NatsCmd {
			return casting.ShowNatsCommand(a, *s)
		}
		return a.WithNet(c.Context(), func(conn *mesh.Net) error { return casting.Run(c.Context(), a, conn, *s) })
	}
	return c
}
