package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/mesh"
)

func (a *app) meshCommand() *cobra.Command {
	return groupCommand(&cobra.Command{Use: "mesh COMMAND", Short: "Show one mesh, or restart its procs"}, a.meshRestartCommand(), a.meshShowCommand())
}

func (a *app) meshShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show MESH",
		Short: "Show a mesh and its state",
		Long: `Show a live mesh, or else the newest ended one of that name: its owner, its recovery policy,
and the state of its ranks, hosts and actors.

The owner is the controller in the program that made the mesh. If it does not answer, the hosts'
reports are shown instead, with a note.

JSON: mesh, label, extent, ranks, program, phase, statuses (region, ranks, status, reason),
failures (rank, point, host, reason, root, exit_code, signal, oom, stderr_tail, at), restarts
(rank, point, gen, proc, host, cause, tries, doing, for), hosts (id, state, reason), actors
(actor, type, statuses), no_actors (region of the running ranks without actors), lease_left, owner
(id, answers, reason, since, lease, restarts, stalls, spares), policy, and of a world, which the system controller owns, world (status,
reason, for, ending). Durations are in nanoseconds.`,
		Example:           "  castnet mesh show demo\n  castnet mesh show demo -o json",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: a.complete(meshNames),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := parseMesh(args[0], "mesh show")
			if err != nil {
				return err
			}
			return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error {
				v, missing, err := t.inspect(ctx, net)
				if err != nil {
					return err
				}
				return errors.Join(a.showMesh(v), missing)
			})
		},
	}
}

// maxRuns bounds the statuses shown to people.
const maxRuns = 20

func (a *app) showMesh(v meshView) error {
	switch a.output {
	case asJSON:
		return a.writeJSON(v)
	case asNDJSON:
		return a.writeJSONLine(v)
	}
	if err := writeFields(a.stdout, a.meshFields(v)); err != nil {
		return err
	}
	if err := a.showRuns("ranks", v.Statuses); err != nil {
		return err
	}
	if err := a.showRestartedRanks(v.RestartedRanks); err != nil {
		return err
	}
	if trouble := v.unhealthyHosts(); len(trouble) > 0 {
		fmt.Fprintln(a.stdout)
		err := showRecords(a, trouble, []string{"host", "state", "reason"}, func(h hostView) []string {
			return []string{hostLabel(h.ID), a.paintHostState(h.State), orDash(shorten(h.Reason, 90))}
		})
		if err != nil {
			return err
		}
	}
	for _, x := range v.Actors {
		if err := a.showRuns("ranks of "+labelOf(x.Actor), x.Statuses); err != nil {
			return err
		}
	}
	return nil
}

// meshFields returns the single-valued fields.
func (a *app) meshFields(v meshView) [][2]string {
	var hosts []string
	for _, h := range v.Hosts {
		hosts = append(hosts, hostLabel(h.ID)) // "-" for a missing host of a world
	}
	rows := [][2]string{{"mesh", v.Mesh}}
	if v.Label != labelOf(v.Mesh) {
		rows = append(rows, [2]string{"called", v.Label})
	}
	rows = append(rows, [][2]string{
		{"phase", a.paintStatus(v.Phase)},
		{"extent", fmt.Sprintf("%s: %s on %s (%s)", v.Extent, pluralize(v.Ranks, "proc"), pluralize(len(hosts), "host"), shorten(strings.Join(hosts, ", "), 60))},
		{"program", orDash(v.Program)},
	}...)
	if v.NoActors != "" {
		rows = append(rows, [2]string{"actors", "none " + v.describeRegion(v.NoActors)})
	}
	rows = append(rows, [2]string{"owner", v.Owner.ID})
	if !v.Owner.Answers {
		return append(rows, [2]string{"", a.paint(red, "is silent: ") + v.Owner.Why}, [2]string{"", "the rest is reported by the hosts"},
			[2]string{"lease", v.describeLease()})
	}
	o := v.Owner
	if w := v.World; w != nil {
		return append(rows, [2]string{"world", strings.TrimSuffix(fmt.Sprintf("%s for %s: %s", w.Status, formatAge(w.For), cmp.Or(w.Ending, w.Reason)), ": ")},
			[2]string{"failures", v.Policy})
	}
	rows = append(rows,
		[2]string{"", fmt.Sprintf("since %s; restarts %d, stalls %d", formatAge(time.Since(*o.Since)), o.Restarts, o.Stalls)},
		[2]string{"failures", v.Policy})
	if o.Spares > 0 {
		rows = append(rows, [2]string{"", pluralize(o.Spares, "spare host") + " left"})
	}
	return append(rows, [2]string{"lease", formatLease(o.Lease)})
}

func formatLease(d time.Duration) string {
	if d == 0 {
		return "none: procs outlive their owner"
	}
	return d.String() + ": procs outlive their owner for this time"
}

// describeLease describes what happens without renewal of the lease.
func (v meshView) describeLease() string {
	if v.hasEnded() {
		return "ended with the mesh"
	}
	if v.Lease == 0 {
		return "none known to a host: live procs run until `castnet stop`"
	}
	return fmt.Sprintf("expires in %s: then the hosts stop its procs", formatRemaining(v.Lease))
}

// formatRemaining formats a remaining time.
func formatRemaining(d time.Duration) string {
	if d < 10*time.Second {
		return d.Truncate(100 * time.Millisecond).String()
	}
	return formatAge(d)
}

// unhealthyHosts returns the hosts that are not alive.
func (v meshView) unhealthyHosts() (out []hostView) {
	for _, h := range v.Hosts {
		if h.State != hostAlive {
			out = append(out, h)
		}
	}
	return out
}

func (a *app) paintHostState(s string) string {
	if s == "dead" {
		return a.paint(red, s)
	}
	return a.paint(yellow, s)
}

// showRuns prints a table of equal ranks.
func (a *app) showRuns(what string, runs []statusRun) error {
	fmt.Fprintln(a.stdout)
	err := showRecords(a, runs[:min(len(runs), maxRuns)], []string{what, "n", "status", "reason"}, func(r statusRun) []string {
		return []string{"[" + shorten(r.Region, 60) + "]", strconv.Itoa(r.Ranks), a.paintStatus(r.Status), orDash(shorten(r.Reason, 90))}
	})
	if more := len(runs) - maxRuns; more > 0 {
		fmt.Fprintf(a.stdout, "and %d more; --output json has all\n", more)
	}
	return err
}

func (a *app) showRestartedRanks(later []restartedRank) error {
	if len(later) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	return showRecords(a, later, []string{"rank", "gen", "host", "restarts", "now", "reason"}, func(l restartedRank) []string {
		return []string{
			"[" + l.Point + "]", strconv.Itoa(l.Gen), hostLabel(l.Host), strconv.Itoa(l.Restarts), cmp.Or(l.describePhase(), a.paintStatus(l.status)), orDash(shorten(l.Cause, 60)),
		}
	})
}

// describePhase describes the restart of a rank, or returns "".
func (l restartedRank) describePhase() string {
	switch l.RestartPhase {
	case "waiting":
		return "starts in " + formatRemaining(l.NextIn)
	case "held":
		return "waits for its proc, for " + formatRemaining(l.NextIn)
	case "starting":
		return "starting"
	case "leaving":
		return "stopping before its restart"
	}
	return ""
}

// writeFields prints a name and a value per line.
func writeFields(w io.Writer, rows [][2]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\n", r[0], r[1])
	}
	return tw.Flush()
}
