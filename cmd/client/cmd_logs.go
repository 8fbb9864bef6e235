package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/logs"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

func logsCommand(a *app.App) *cobra.Command {
	o := logs.Options{Window: 3 * time.Second}
	c := &cobra.Command{
		Use:   "logs MESH[region]",
		Short: "Show the output of the procs of a mesh",
		Long: `Show the last stdout and stderr lines of each proc, with its coordinates. The mesh is a live
one, or else the newest ended one of that name. With --follow, also show new lines, across restarts,
until every proc has ended for good or Ctrl-C.

Merging shows equal lines of several ranks once, with the region of the ranks:
  [host=0:2,gpu=*] 16× ready
  [*] [32 similar lines] step 100 loss 0.331…0.352
Merging is the default on a terminal. A line waits for equal lines for --merge-window at most, and
mostly a fifth of that. Lines of stderr are yellow, or marked if there are no colours.

If hosts do not answer, the lines of the others are shown, and the exit code is 4.

JSON: rank, point, stream, line; with --follow, one line each; never merged.`,
		Example: "  castnet logs demo\n  castnet logs 'demo[host=0]' -f --tail 0\n  castnet logs demo " +
			"-f --merge=false",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.Meshes),
	}
	c.Flags().IntVar(&o.Tail, "tail", 20, "show the last `LINES` of each stream first")
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "follow new output")
	c.Flags().BoolVar(&o.Merge, "merge", false, "merge equal lines of several ranks (default on a terminal)")
	flags.Add(
		c.Flags(), &o.Window, "merge-window", "DURATION", "longest wait for lines to merge (default 3s)",
		flags.PositiveDuration,
	)
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := target.Parse(args[0])
		if err != nil {
			return err
		}
		o.MergeSet = c.Flags().Changed("merge")
		switch {
		case o.Tail < 0:
			return cli.Usagef("--tail is %d, want 0 or more", o.Tail)
		case o.Merge && a.Format != output.Table:
			return cli.Usagef("--merge has no effect on JSON: want it without --output %s", a.Format)
		case o.Follow:
			return logs.FollowLogs(c.Context(), a, t, o)
		}
		return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
			p, silent, err := t.ResolveWithEnded(ctx, conn)
			if err != nil {
				return err
			}
			return logs.ShowTails(ctx, a.Printer, p, o, silent)
		})
	}
	return c
}
