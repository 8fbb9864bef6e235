package main

import (
	"context"
	"math"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
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
	o := logs.Options{Window: mesh.DefaultFoldWindow}
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

--since and --grep search on the hosts, in the last 8 MiB of each output: one message to each host,
and one from it. They show all lines they find, unless --tail is set. The time of a line is when its
host read it, up to half a second late (3% of its age later). It is unknown (-) for lines from
before hostd started.

--follow asks each host for the lines after the last ones, so no line is lost or shown twice. If it
lies more than 8 MiB behind an output, it continues with the last 64 KiB and counts the dropped lines.
A line on stderr says when the bus or a host does not answer, and when it answers again.

If hosts do not answer, the lines of the others are shown, and the exit code is 4. A line on stderr
names hosts with a full or read-only log disk.

JSON: rank, point, stream, line, time; with --follow, one line each; never merged.`,
		Example: "  castnet logs demo\n  castnet logs 'demo[host=0]' -f --tail 0\n  castnet logs demo " +
			"-f --merge=false\n  castnet logs demo --since 10m --grep 'loss|error' --timestamps",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.Meshes),
	}
	c.Flags().IntVar(&o.Lines, "tail", 20, "show the last `LINES` of each stream first")
	flags.Add(
		c.Flags(), &o.Since, "since", "DURATION|TIME", "only lines of the last 10m, or since 2026-11-26T09:30:00Z",
		flags.Since,
	)
	flags.Add(c.Flags(), &o.Grep, "grep", "REGEXP", "only lines that match (syntax of RE2)", grepPattern)
	c.Flags().BoolVar(&o.Timestamps, "timestamps", false, "show the time of each line")
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
		searches := o.Grep != "" || !o.Since.IsZero()
		if searches && !c.Flags().Changed("tail") {
			o.Lines = math.MaxInt32
		}
		switch {
		case o.Lines < 0:
			return cli.Usagef("--tail is %d, want 0 or more", o.Lines)
		case o.Merge && a.Format != output.Table:
			return cli.Usagef("--merge has no effect on JSON: want it without --output %s", a.Format)
		case o.Follow:
			return logs.FollowLogs(c.Context(), a, t, o)
		}
		return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
			l, err := t.ResolveWithEnded(ctx, conn)
			if err != nil {
				return err
			}
			return logs.ShowTails(ctx, a.Printer, l, o)
		})
	}
	return c
}

// grepPattern checks a regular expression.
func grepPattern(text string) (string, error) {
	_, err := agent.LogsRequest{Grep: text}.Pattern()
	return text, err
}
