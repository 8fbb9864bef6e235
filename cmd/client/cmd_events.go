package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/events"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/subjects"
)

func eventsCommand(a *app.App) *cobra.Command {
	var pick inspect.EventFilter
	var follow, verbose bool
	c := &cobra.Command{
		Use:   "events",
		Short: "Show what happens to hosts, meshes, procs and actors",
		Long: `Show the failures that the system controller remembers, at most 256, and the owners of meshes, at
most 64 of each. The system controller also remembers those of meshes whose owners are gone,
the troubles of worlds, and drains and shutdowns of hosts. With --follow, also
show new events of hosts, meshes, procs and actors until Ctrl-C, and state changes of the hosts that
are present at the start.

An event is one line: time, kind, object with coordinates, status, step, host, sender and reason; the
root cause follows ←. The sender ("by") is that of the order, such as a stop; kind audit has all
orders, also refused ones. With --verbose, IDs, the exit code or signal, every cause and the last lines of
stderr follow. Other events are not kept; docs/events.md lists all.

JSON: as events are on the bus: kind, status, mesh, rank, gen, actor, host, endpoint, reason, cause (an
event), exit_code, signal, stderr_tail, at, step, name, point; with --follow, one line each.`,
		Example: "  castnet events\n  castnet events -f --kind proc --mesh demo\n  castnet events -f " +
			"-o ndjson\n  castnet events --since 10m",
		Args:              flags.WantArgs(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fs := c.Flags()
	fs.BoolVarP(&follow, "follow", "f", false, "follow new events")
	fs.BoolVarP(&verbose, "verbose", "v", false, "show all details")
	kinds := []string{actor.KindHost, actor.KindMesh, actor.KindRank, actor.KindProc, actor.KindActor,
		actor.KindAudit}
	flags.Add(
		fs, &pick.Kind, "kind", "KIND", "show only events of this kind: host, mesh, rank, proc, actor or audit",
		flags.Choice(kinds...),
	)
	flags.Add(fs, &pick.Mesh, "mesh", "MESH", "show only events of the mesh with this label or ID",
		func(s string) (string, error) {
			return s, subjects.CheckName("mesh", s)
		})
	flags.Add(
		fs, &pick.Since, "since", "DURATION|TIME", "only events of the last 10m, or since 2026-11-26T09:30:00Z",
		flags.Since,
	)
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("mesh", func(c *cobra.Command, _ []string, prefix string) ([]string,
		cobra.ShellCompDirective) {
		return a.Complete(candidates.MeshesAndWorlds)(c, nil, prefix)
	})
	c.RunE = func(c *cobra.Command, _ []string) error {
		if follow {
			return followEvents(c.Context(), a, pick, verbose)
		}
		return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
			past, err := inspect.PastFailures(ctx, conn, pick)
			if err != nil {
				return err
			}
			if a.Format == output.JSON {
				return a.WriteJSON(past)
			}
			if len(past) == 0 {
				a.Notef("no such failure is remembered; --follow shows new events")
			}
			v := events.NewView(a.Printer, conn, verbose)
			for _, e := range past {
				if err := v.Show(ctx, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return c
}

// followEvents prints past failures, then new events.
func followEvents(ctx context.Context, a *app.App, pick inspect.EventFilter, verbose bool) error {
	err := a.WithNet(ctx, func(conn *mesh.Net) error {
		w, err := inspect.WatchEvents(conn, pick) // before the query, so that no event is lost in between
		if err != nil {
			return err
		}
		defer w.Close()
		within, cancel := context.WithTimeout(ctx, a.Conn.Timeout)
		defer cancel()
		hosts, err := conn.AllHosts(within)
		if err != nil {
			return err
		}
		defer w.WatchHosts(ctx, hosts, pick)()
		past, err := inspect.PastFailures(within, conn, pick)
		if err != nil {
			return err
		}
		v := events.NewView(a.Printer, conn, verbose)
		for _, e := range past {
			if err := v.Show(ctx, e); err != nil {
				return err
			}
		}
		a.Notef("new events follow, until Ctrl-C")
		for {
			select {
			case e := <-w.Events:
				err = v.Show(ctx, e)
			case <-conn.Bus().Done():
				return conn.Bus().Err()
			case <-ctx.Done():
				return ctx.Err()
			}
			if err != nil {
				return err
			}
			if n := w.Lost.Swap(0); n > 0 {
				a.Notef("castnet: %d events were lost: they arrived faster than they were shown", n)
			}
		}
	})
	if ctx.Err() != nil && cli.ExitCode(err) == cli.ExitInterrupted {
		return nil // Ctrl-C is the normal end
	}
	return err
}
