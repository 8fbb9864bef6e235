package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/system"
)

func worldsCommand(a *app.App) *cobra.Command {
	var f system.Filter
	c := &cobra.Command{
		Use:   "worlds [NAME…]",
		Short: "List worlds: meshes that outlive their makers",
		Long: `List worlds with their procs, hosts and problems. castnet apply declares a world. Its hosts are
hostds with --world and --host-rank.

JSON: name, status (awaiting creation, starting, live or unhealthy), reason, status_age (nanoseconds), mesh,
shape, per_host, labels, hosts (rank, id, first, count, lost, labels), procs (id, health,
reason, failed, host, labels), stopping_reason.`,
		Example: "  castnet worlds\n  castnet worlds train -o json\n  castnet worlds --label team=vision",
		RunE: func(c *cobra.Command, args []string) error {
			f.Worlds = args
			return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
				return listWorlds(ctx, a.Printer, conn, f)
			})
		},
		ValidArgsFunction: a.CompleteEach(candidates.Worlds),
	}
	flags.Add(
		c.Flags(), &f.WorldLabels, "label", "KEY=VALUE",
		"only worlds with these labels; several with commas between", flags.Labels,
	)
	flags.Add(
		c.Flags(), &f.ProcLabels, "proc-label", "KEY=VALUE", "in each, only procs with these labels", flags.Labels,
	)
	return c
}

func listWorlds(ctx context.Context, out *output.Printer, conn *mesh.Net, f system.Filter) error {
	ref, err := target.FindSystem(ctx, conn)
	if err != nil {
		return err
	}
	now, err := system.GetSnapshot.Call(ctx, ref, f)
	if err != nil {
		return err
	}
	if !now.Durable && len(now.Worlds) > 0 {
		out.Notef("no JetStream: these worlds end with the hostd that owns them")
	}
	err = showWorlds(out, now.Worlds)
	if len(now.Worlds) == 0 && len(f.Worlds) == 0 && len(f.WorldLabels) == 0 {
		out.Notef("no worlds: `castnet apply -f FILE` declares them")
	}
	for _, name := range f.Worlds {
		found := slices.ContainsFunc(now.Worlds, func(w system.WorldState) bool { return w.Name == name })
		if !found && len(f.WorldLabels) == 0 {
			return errors.Join(err, cli.WithCode(cli.ExitNotFound, &system.NotFoundError{What: "world " + name}))
		}
	}
	return err
}

func worldStatus(out *output.Printer, w system.WorldState) string {
	switch {
	case w.StoppingReason != "":
		return out.Paint(output.Grey, "stopping")
	case w.Status == system.StatusLive:
		return out.Paint(output.Green, string(w.Status))
	case w.Status == system.StatusUnhealthy:
		return out.Paint(output.Red, string(w.Status))
	}
	return out.Paint(output.Yellow, string(w.Status))
}

// formatProcs formats the number of live procs and the total.
func formatProcs(w system.WorldState) string {
	there := 0
	for _, p := range w.Procs {
		if p.Health == system.HealthAlive {
			there++
		}
	}
	if w.Shape == nil {
		return strconv.Itoa(there)
	}
	return fmt.Sprintf("%d/%d", there, w.Shape.NumRanks())
}

// formatHosts formats the labels of the hosts by rank, lost ones first.
func formatHosts(w system.WorldState) string {
	var out []string
	hosts := slices.Clone(w.Hosts)
	slices.SortStableFunc(hosts, func(a, b system.HostState) int {
		return cmp.Compare(min(len(b.Lost), 1), min(len(a.Lost), 1))
	})
	for _, h := range hosts {
		text := fmt.Sprintf("%d:%s", h.Rank, h.ID.Label())
		if h.Lost != "" {
			text += "(lost)"
		} else if h.Count == 0 && w.Shape != nil {
			text += "(stands by)"
		}
		out = append(out, text)
	}
	return text.OrDash(text.Shorten(strings.Join(out, " "), 60))
}

func showWorlds(out *output.Printer, worlds []system.WorldState) error {
	columns := []string{"world", "status", "for", "procs", "hosts", "labels", "reason"}
	return output.Records(out, worlds, columns, func(w system.WorldState) []string {
		return []string{
			w.Name, worldStatus(out, w), text.Age(w.StatusAge), formatProcs(w), formatHosts(w), text.OrDash(
				target.FormatLabels(w.Labels),
			),
			text.Reason(cmp.Or(w.StoppingReason, w.Reason)),
		}
	})
}
