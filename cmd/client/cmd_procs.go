package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// linkRecords asks the live procs of a target, or of all meshes, for links and dropped input. The
// error names silent procs and comes with the other records.
func linkRecords(
	ctx context.Context, conn *mesh.Net, t *target.Target,
) (records []inspect.Link, unused []string, err error) {
	var only *target.Resolved
	var inv mesh.Inventory
	var missing error
	if t != nil {
		var procs mesh.ProcMesh
		inv, procs, err = conn.InventoryFor(ctx, t.Name)
		if err != nil {
			return nil, nil, target.OrEmptyWorld(ctx, conn, t.Name, err)
		}
		p, err := t.ResolveIn(procs)
		if err != nil {
			return nil, nil, err
		}
		only, missing = &p, p.MissingHosts(inv, *t)
	} else {
		inv, err = conn.Inventory(ctx)
		if err != nil {
			return nil, nil, err
		}
		missing = inv.Err()
	}
	var asked []mesh.MeshState
	for _, m := range inv.Meshes {
		if only != nil {
			m.States = slices.DeleteFunc(m.States, func(s agent.State) bool {
				return m.Procs.ID() != only.Procs.ID() || !only.Region.Contains(s.Rank)
			})
		}
		m.States = slices.DeleteFunc(m.States, func(s agent.State) bool {
			return s.Status.Phase.Terminal() || s.Status.Phase == agent.Unknown // on a silent host
		})
		asked = append(asked, m)
	}
	records, unused, err = inspect.Links(ctx, conn, asked)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		err = cli.WithCode(cli.ExitPartial, err)
	}
	return records, unused, errors.Join(err, missing)
}

func showLinks(out *output.Printer, records []inspect.Link) error {
	columns := []string{
		"point", "peer", "sent", "acked", "again", "received", "twice", "gaps", "credit", "rtt", "stalled",
	}
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return output.Records(out, records, columns, func(r inspect.Link) []string {
		credit, rtt := "-", "-" // of an unopened link
		if r.Sent > 0 {
			credit = strconv.FormatInt(r.Credit>>10, 10) + " KiB"
			rtt = r.RTT.Round(10 * time.Microsecond).String()
		}
		return []string{
			r.Point, r.Process.String(), number(r.Sent), number(r.Acked), number(r.Retransmitted),
			number(r.Received), number(r.Duplicates), number(r.Gaps), credit, rtt, linkState(out, r.Peer),
		}
	})
}

// linkState describes the problem of a link.
func linkState(out *output.Printer, p actor.Peer) string {
	if p.DeadReason != "" {
		return "dead: " + text.Shorten(p.DeadReason, 60)
	}
	if p.StallReason != "" {
		return out.Paint(output.Yellow, p.StallReason)
	}
	return "-"
}

func procsCommand(a *app.App) *cobra.Command {
	var all, links bool
	c := &cobra.Command{
		Use:   "procs [MESH[region]]",
		Short: "List the procs of one mesh, or of all",
		Long: `List procs as their hosts see them: those of one mesh or of a region of it, or of
every mesh that has a proc alive. With --all, also of meshes that have ended. A name is that of a
live mesh, or else of the newest ended one. The ranks on a host that does not answer are unknown,
unless the owner of the mesh knows more; then the exit code is 4.
The reason of a proc launched by an earlier hostd says so. CPU-TIME and MEM (resident memory) are of
the process of a proc, without its children, and known on Linux; castnet top shows the use of CPUs.
More than 16 equal ranks of a mesh share a row, and more than two that do not run for one reason;
JSON lists each.

JSON: mesh, rank, point, host, pid, status, reason, started, exit_code, signal, adopted, cpu_time
(nanoseconds), memory (bytes).

With --links, show the links of those procs instead: packets, retransmissions, duplicates, gaps,
credit, and the reason of a stall. Dropped input, such as malformed or late messages, is counted
below.

JSON: mesh, rank, point, process, sent, acked, in_flight, waiting, credit, packets, retransmitted, rtt,
received, duplicates, gaps, stall_reason, heard, dead_reason.`,
		Example: "  castnet procs\n  castnet procs 'demo[host=0]'\n  castnet procs --all --output " +
			"ndjson\n  castnet procs demo --links",
		Args:              flags.WantArgs(0, 1),
		ValidArgsFunction: a.Complete(candidates.Meshes),
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also meshes that have ended")
	c.Flags().BoolVar(&links, "links", false, "show the links of the procs with others")
	c.MarkFlagsMutuallyExclusive("all", "links")
	c.RunE = func(c *cobra.Command, args []string) error {
		var t *target.Target
		if len(args) == 1 {
			parsed, err := target.Parse(args[0])
			if err != nil {
				return err
			}
			t = &parsed
		}
		return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
			if links {
				records, unused, err := linkRecords(ctx, conn, t)
				err = errors.Join(showLinks(a.Printer, records), err)
				for _, of := range unused {
					a.Notef("dropped: %s", of)
				}
				return err
			}
			records, missing, err := listProcs(ctx, conn, t, all)
			if err != nil {
				return err
			}
			if len(records) == 0 && missing == nil {
				noteNoProcs(a.Printer, t)
			}
			return errors.Join(showRanks(a.Printer, records), missing)
		})
	}
	return c
}

// noteNoProcs explains an empty result.
func noteNoProcs(out *output.Printer, t *target.Target) {
	if t == nil {
		out.Notef("no procs: `castnet up` starts a mesh")
		return
	}
	out.Notef("no host has a rank of %s", t) // a world whose hosts have not joined
}

// listProcs returns the ranks of a target, or of every mesh. missing names hosts without an answer.
func listProcs(
	ctx context.Context, conn *mesh.Net, t *target.Target, all bool,
) (records []inspect.Proc, missing, err error) {
	if t != nil {
		return listRanks(ctx, conn, *t)
	}
	inv, err := conn.Inventory(ctx)
	if err != nil {
		return nil, nil, err
	}
	inspect.Measure(ctx, conn, inv)
	for _, m := range inv.Meshes {
		if all || m.Alive() {
			records = append(records, inspect.Procs(m, func(int) bool { return true })...)
		}
	}
	return records, inv.Err(), nil
}

// listRanks returns the ranks of a target.
func listRanks(
	ctx context.Context, conn *mesh.Net, t target.Target,
) (records []inspect.Proc, missing, err error) {
	inv, m, missing, err := inspect.FindWithEnded(ctx, conn, t.Name)
	if err != nil {
		return nil, nil, target.OrEmptyWorld(ctx, conn, t.Name, err)
	}
	p, err := t.ResolveIn(m.Procs)
	if err != nil {
		return nil, nil, err
	}
	inspect.Measure(ctx, conn, inv)
	return inspect.Procs(m, p.Region.Contains), cmp.Or(p.MissingHosts(inv, t), missing), nil
}

// listTarget returns the present state of every rank of a target.
func listTarget(ctx context.Context, conn *mesh.Net, p target.Resolved) ([]inspect.Proc, error) {
	meshes, err := conn.Meshes(ctx)
	for _, m := range meshes {
		if m.Procs.ID() == p.Procs.ID() {
			return inspect.Procs(m, p.Region.Contains), nil
		}
	}
	return nil, err
}
