package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/screen"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/cmd/client/internal/top"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

func topCommand(a *app.App) *cobra.Command {
	o := top.Options{Interval: 2 * time.Second, Rows: 20, Sort: inspect.SortKeys()[0]}
	c := &cobra.Command{
		Use:   "top [MESH[region]]",
		Short: "Show CPU, memory, message rates and queues of hosts and procs",
		Long: `Show hosts and procs with CPU, memory, handled messages per second and queued messages; those of
one mesh or of a region of it, or all. Messages to the procs' own agents are not counted.

A terminal gets a live screen until q or Ctrl-C: a tree of hosts, ranks and actors, the details of a
rank, events and logs. ? shows its keys. Other outputs and dumb terminals get one result, after two
samples.

CPU is in percent of one CPU, and MEM is resident memory. Both are of the process of a proc, without
its children, and known of procs on Linux. The row of a host adds up its procs.

--sort puts the largest first: by rate (messages per second), cpu, mem, queued or handled (messages in
total); or by name, the default of the screen. A host without an answer comes first, with the reports
of its procs; then the exit code is 4, except for the screen. STALE marks the screen if the last
sample failed.

JSON: at, hosts (host, id, procs, queued, handled, rate, cpu, memory, state, silence), procs (mesh, rank,
point, host, gen, status, silent, actors, queued, handled, rate, cpu, memory, cpu_time, latency, busy). A
rate is messages handled in a second; memory is in bytes; cpu_time and latency, the largest mean of an
actor's messages in the mailbox and the handler, are in nanoseconds.`,
		Example:           "  castnet top\n  castnet top --sort mem\n  castnet top 'demo[host=0]' -o json",
		Args:              flags.WantArgs(0, 1),
		ValidArgsFunction: a.Complete(candidates.Meshes),
	}
	fs := c.Flags()
	flags.Add(
		fs, &o.Interval, "interval", "DURATION", "time between two samples (default 2s)", flags.PositiveDuration,
	)
	flags.Add(
		fs, &o.Rows, "rows", "N", "maximum number of procs in tables, not on the screen (default 20)", flags.Count,
	)
	flags.Add(
		fs, &o.Sort, "sort", "KEY", "largest first: "+strings.Join(inspect.SortKeys(), ", ")+" (default rate)",
		flags.Choice(inspect.SortKeys()...),
	)
	_ = c.RegisterFlagCompletionFunc(
		"sort", cobra.FixedCompletions(inspect.SortKeys(), cobra.ShellCompDirectiveNoFileComp),
	)
	c.RunE = func(c *cobra.Command, args []string) error {
		err := a.WithNet(c.Context(), func(conn *mesh.Net) error {
			t := &inspect.Sampler{Net: conn, Timeout: a.Conn.Timeout}
			if len(args) == 1 {
				p, err := topTarget(c.Context(), a, conn, args[0])
				if err != nil {
					return err
				}
				id := p.Procs.ID().String()
				t.Only = func(mesh string, rank int) bool { return mesh == id && p.Region.Contains(rank) }
			}
			if hasScreen(a) {
				if !fs.Changed("sort") {
					o.Sort = "name" // else rows would move below the cursor
				}
				return screen.Run(c.Context(), conn, screenOptions(a, t, o, args))
			}
			return top.Once(c.Context(), a.Printer, t, o)
		})
		if hasScreen(a) && cli.ExitCode(err) == cli.ExitInterrupted {
			return nil // Ctrl-C is the normal end
		}
		return err
	}
	return c
}

// hasScreen reports whether stdout is a terminal that can show a screen.
func hasScreen(a *app.App) bool {
	term := a.Getenv("TERM")
	return a.OutTTY && a.Format == output.Table && term != "dumb" && term != ""
}

// screenOptions describe the screen on this terminal. Without a terminal on stdin it has no keys,
// and Ctrl-C ends it.
func screenOptions(a *app.App, t *inspect.Sampler, o top.Options, args []string) screen.Options {
	s := screen.Options{
		Interval: o.Interval, Sort: o.Sort, Scope: strings.Join(args, ""), Only: t.Only, Color: a.UseColor,
		Out: a.Stdout, Environ: os.Environ(),
	}
	if isatty.IsTerminal(os.Stdin.Fd()) {
		s.In = os.Stdin
	}
	return s
}

// topTarget finds the procs of a target.
func topTarget(ctx context.Context, a *app.App, conn *mesh.Net, name string) (p target.Resolved, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.Conn.Timeout)
	defer cancel()
	t, err := target.Parse(name)
	if err != nil {
		return p, err
	}
	procs, err := conn.Lookup(ctx, t.Name)
	if err != nil {
		return p, target.OrEmptyWorld(ctx, conn, t.Name, err)
	}
	return t.ResolveIn(procs)
}
