package main

import (
	"time"

	"github.com/castnet-io/castnet/mesh/inspect"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/top"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

func topCommand(a *app.App) *cobra.Command {
	every := 2 * time.Second
	rows := 20
	c := &cobra.Command{
		Use:   "top",
		Short: "Show message rates and queues of hosts and procs",
		Long: `Show hosts and procs by handled messages per second and by queued messages. A terminal is
redrawn until Ctrl-C; other outputs get one result, after two samples. Messages to the procs' own
agents are not counted.

A host without an answer stays in the list, with the reports of its procs; then the exit code is 4,
except for a live screen. STALE marks the screen if the last sample failed.

JSON: at, hosts (host, id, procs, queued, handled, rate, state, silence), procs (mesh, rank, point, host, gen,
status, silent, actors, queued, handled, rate, busy). A rate is messages handled in a second.`,
		Example:           "  castnet top\n  castnet top --interval 500ms --rows 40\n  castnet top -o json",
		Args:              flags.WantArgs(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags.Add(
		c.Flags(), &every, "interval", "DURATION", "time between two samples (default 2s)", flags.PositiveDuration,
	)
	flags.Add(c.Flags(), &rows, "rows", "N", "maximum number of procs in tables (default 20)", flags.Count)
	c.RunE = func(c *cobra.Command, _ []string) error {
		err := a.WithNet(c.Context(), func(conn *mesh.Net) error {
			t := &inspect.Sampler{Net: conn, Timeout: a.Conn.Timeout}
			if a.OutTTY && a.Format == output.Table {
				return top.Live(c.Context(), a.Printer, t, every, rows)
			}
			return top.Once(c.Context(), a.Printer, t, every, rows)
		})
		if a.OutTTY && cli.ExitCode(err) == cli.ExitInterrupted {
			return nil // Ctrl-C is the normal end
		}
		return err
	}
	return c
}
