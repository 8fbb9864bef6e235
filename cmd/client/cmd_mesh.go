package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

func meshCommand(a *app.App) *cobra.Command {
	return flags.GroupCommand(
		&cobra.Command{Use: "mesh COMMAND", Short: "Show one mesh, or restart its procs"}, meshRestartCommand(a),
		meshShowCommand(a),
	)
}

func meshShowCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "show MESH",
		Short: "Show a mesh and its state",
		Long: `Show a live mesh, or else the newest ended one of that name: its owner, its restart policy,
and the state of its ranks, hosts and actors.

The owner is the controller in the program that made the mesh. If it does not answer, the hosts'
reports are shown instead, with a note.

JSON: mesh, label, extent, ranks, program, phase, statuses (region, ranks, status, reason),
failures (rank, point, host, reason, root, exit_code, signal, oom, stderr_tail, at), restarted_ranks
(rank, point, gen, proc, host, cause, restarts, restart_phase, next_in), hosts (id, state, reason, since),
actors (actor, type, statuses), no_actors (region of the running ranks without actors), silent_procs (region
of the running ranks that did not answer), started, lease_left, owner (id, answering, gone, reason, since,
lease, restarts, stalls, spares), restart_policy, and of a world, which the system controller owns, world
(status, reason, status_age, stopping_reason, eviction_in). Durations are in nanoseconds.`,
		Example:           "  castnet mesh show demo\n  castnet mesh show demo -o json",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.MeshesAndWorlds),
		RunE:              runInspect(a, "mesh show", func(v inspect.View) error { return showMesh(a.Printer, v) }),
	}
}

// runInspect returns the function of a command that shows the view of a mesh.
func runInspect(
	a *app.App, command string, show func(inspect.View) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		t, err := target.ParseMesh(args[0], command)
		if err != nil {
			return err
		}
		return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
			v, missing, err := t.Inspect(ctx, conn)
			if err != nil {
				return err
			}
			return errors.Join(show(v), missing)
		})
	}
}

// maxRuns bounds the rows of a table in the state of a mesh.
const maxRuns = 20

// firstRecords prints a table of at most maxRuns records, and counts the others.
func firstRecords[T any](out *output.Printer, all []T, columns []string, row func(T) []string) error {
	err := output.Records(out, all[:min(len(all), maxRuns)], columns, row)
	if more := len(all) - maxRuns; more > 0 {
		fmt.Fprintf(out.Stdout, "and %d more; --output json has all\n", more)
	}
	return err
}

func showMesh(out *output.Printer, v inspect.View) error {
	if written, err := out.WriteDocument(v); written {
		return err
	}
	if err := writeFields(out, meshFields(out, v)); err != nil {
		return err
	}
	if err := showRuns(out, "ranks", v.Statuses); err != nil {
		return err
	}
	if err := showRestartedRanks(out, v.RestartedRanks); err != nil {
		return err
	}
	if trouble := v.UnhealthyHosts(); len(trouble) > 0 {
		fmt.Fprintln(out.Stdout)
		err := firstRecords(out, trouble, []string{"host", "state", "reason"}, func(h inspect.Host) []string {
			return []string{text.HostLabel(h.ID), out.PaintHostState(h.State), text.Reason(h.Reason)}
		})
		if err != nil {
			return err
		}
	}
	for _, x := range v.Actors {
		if err := showRuns(out, "ranks of "+text.Label(x.Actor), x.Statuses); err != nil {
			return err
		}
	}
	return nil
}

// meshFields returns the single-valued fields.
func meshFields(out *output.Printer, v inspect.View) [][2]string {
	var hosts []string
	for _, h := range v.Hosts {
		hosts = append(hosts, text.HostLabel(h.ID)) // "-" for a missing host of a world
	}
	rows := [][2]string{{"mesh", v.Mesh}}
	if v.Label != text.Label(v.Mesh) {
		rows = append(rows, [2]string{"called", v.Label})
	}
	rows = append(rows, [][2]string{
		{"phase", out.PaintStatus(v.Phase)},
		{
			"extent",
			fmt.Sprintf(
				"%s: %s on %s (%s)", v.Extent, text.Pluralize(v.Ranks, "proc"), text.Pluralize(len(hosts), "host"),
				text.Shorten(strings.Join(hosts, ", "), 60),
			),
		},
		{"program", text.OrDash(v.Program)},
	}...)
	if v.NoActors != "" {
		rows = append(rows, [2]string{"actors", "none " + v.DescribeRegion(v.NoActors)})
	}
	rows = append(rows, [2]string{"owner", v.Owner.ID})
	if !v.Owner.Answering {
		return append(rows, [2]string{"", out.Paint(output.Red, "is silent: ") + v.Owner.Reason},
			[2]string{"", "the rest is reported by the hosts"},
			[2]string{"lease", v.DescribeLease()})
	}
	o := v.Owner
	if w := v.World; w != nil {
		return append(rows, [2]string{"world",
			strings.TrimSuffix(fmt.Sprintf("%s for %s: %s", w.Status, text.Age(w.StatusAge),
				cmp.Or(w.StoppingReason, w.Reason)), ": ")},
			[2]string{"failures", v.RestartPolicy})
	}
	rows = append(rows,
		[2]string{"", fmt.Sprintf("since %s; restarts %d, stalls %d", text.Age(time.Since(*o.Since)),
			o.Restarts, o.Stalls)},
		[2]string{"failures", v.RestartPolicy})
	if o.Spares > 0 {
		rows = append(rows, [2]string{"", text.Pluralize(o.Spares, "spare host") + " left"})
	}
	return append(rows, [2]string{"lease", formatLease(o.Lease)})
}

func formatLease(d time.Duration) string {
	if d == 0 {
		return "none: procs outlive their owner"
	}
	return d.String() + ": procs outlive their owner for this time"
}

// showRuns prints a table of equal ranks.
func showRuns(out *output.Printer, what string, runs []inspect.StatusRun) error {
	fmt.Fprintln(out.Stdout)
	return firstRecords(out, runs, []string{what, "n", "status", "reason"},
		func(r inspect.StatusRun) []string {
			return []string{
				"[" + text.Shorten(r.Region, 60) + "]", strconv.Itoa(r.Ranks), out.PaintStatus(r.Status),
				text.Reason(r.Reason),
			}
		})
}

func showRestartedRanks(out *output.Printer, later []inspect.RestartedRank) error {
	if len(later) == 0 {
		return nil
	}
	fmt.Fprintln(out.Stdout)
	return firstRecords(out, later, []string{"rank", "gen", "host", "restarts", "now", "reason"},
		func(l inspect.RestartedRank) []string {
			return []string{
				"[" + l.Point + "]", strconv.Itoa(l.Gen), text.HostLabel(l.Host), strconv.Itoa(l.Restarts), cmp.Or(
					l.DescribePhase(), out.PaintStatus(l.Status),
				), text.Reason(l.Cause),
			}
		})
}

// writeFields prints a name and a value per line.
func writeFields(out *output.Printer, rows [][2]string) (err error) {
	const width = 10 // of the longest name, and a gap
	for _, r := range rows {
		err = errors.Join(err, out.Println(width, fmt.Sprintf("%-*s%s", width, r[0], r[1])))
	}
	return err
}
