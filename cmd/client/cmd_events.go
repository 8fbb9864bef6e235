package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// eventFilter selects events.
type eventFilter struct {
	kind string // "": all
	mesh string // a label or an ID; "": all
}

func (p eventFilter) matches(e actor.Event) bool {
	return (p.kind == "" || p.kind == e.Kind) && (p.mesh == "" || p.mesh == e.Mesh || p.mesh == labelOf(e.Mesh) || p.mesh == e.Name)
}

func (a *app) eventsCommand() *cobra.Command {
	var pick eventFilter
	var follow, verbose bool
	c := &cobra.Command{
		Use:   "events",
		Short: "Show what happens to hosts, meshes, procs and actors",
		Long: `Show the failures that owners of proc meshes remember, at most 64 of each. With --follow, also
show new events of hosts, meshes, procs and actors until Ctrl-C, and state changes of the hosts that
are present at the start.

An event is one line: time, kind, object with coordinates, status, step, host and reason; the root
cause follows ←. With --verbose, IDs, the exit code or signal, every cause and the last lines of
stderr follow. Other events are not kept; docs/events.md lists all.

JSON: as events are on the bus; with --follow, one line each.`,
		Example:           "  castnet events\n  castnet events -f --kind proc --mesh demo\n  castnet events -f -o ndjson",
		Args:              wantArgs(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fs := c.Flags()
	fs.BoolVarP(&follow, "follow", "f", false, "follow new events")
	fs.BoolVarP(&verbose, "verbose", "v", false, "show all details")
	kinds := []string{actor.KindHost, actor.KindMesh, actor.KindRank, actor.KindProc, actor.KindActor}
	addFlag(fs, &pick.kind, "kind", "KIND", "show only events of this kind: host, mesh, rank, proc or actor", readChoice(kinds...))
	addFlag(fs, &pick.mesh, "mesh", "MESH", "show only events of the mesh with this label or ID", func(s string) (string, error) {
		return s, subjects.CheckName("mesh", s)
	})
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("mesh", func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return a.complete(meshNames)(c, nil, prefix)
	})
	c.RunE = func(c *cobra.Command, _ []string) error {
		if follow {
			return a.followEvents(c.Context(), pick, verbose)
		}
		return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error {
			past, err := pastFailures(ctx, net, pick)
			if err != nil {
				return err
			}
			if a.output == asJSON {
				return a.writeJSON(past)
			}
			if len(past) == 0 {
				a.notef("no owner remembers a failure; --follow shows new events")
			}
			v := a.newEventView(net, verbose)
			for _, e := range past {
				if err := v.show(ctx, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return c
}

// followEvents prints past failures, then new events.
func (a *app) followEvents(ctx context.Context, pick eventFilter, verbose bool) error {
	err := a.withNet(ctx, func(net *mesh.Net) error {
		w, err := watchEvents(net, pick) // before the query, so that no event is lost in between
		if err != nil {
			return err
		}
		defer w.close()
		within, cancel := context.WithTimeout(ctx, a.conn.Timeout)
		defer cancel()
		hosts, err := net.AllHosts(within)
		if err != nil {
			return err
		}
		defer w.watchHosts(ctx, hosts, pick)()
		past, err := pastFailures(within, net, pick)
		if err != nil {
			return err
		}
		v := a.newEventView(net, verbose)
		for _, e := range past {
			if err := v.show(ctx, e); err != nil {
				return err
			}
		}
		for {
			select {
			case e := <-w.events:
				err = v.show(ctx, e)
			case <-net.Bus().Done():
				return net.Bus().Err()
			case <-ctx.Done():
				return ctx.Err()
			}
			if err != nil {
				return err
			}
			if n := w.lost.Swap(0); n > 0 {
				a.notef("castnet: %d events were lost: they arrived faster than they were shown", n)
			}
		}
	})
	if ctx.Err() != nil && cli.ExitCode(err) == cli.ExitInterrupted {
		return nil // Ctrl-C is the normal end
	}
	return err
}
