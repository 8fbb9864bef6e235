package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
)

func hostsCommand(a *app.App) *cobra.Command {
	var pick target.HostSelector
	c := &cobra.Command{
		Use:   "hosts",
		Short: "List the hosts on the bus, cordon, drain or shut them down",
		Long: `List every hostd that answers on the bus, and silent ones that gateways or owners of meshes
expect: suspect, unknown or dead, for an hour (discovery.dead-host-retention). A host that shut down
is not expected. If a host does not answer, or --timeout ended the search, the exit code is 4. Empty
columns are omitted.

JSON: id, label, version, build, pid, procs (alive), started, cpus, labels, mode (open,
cordoned, draining or leaving), mode_reason, local, tree_control, log_trouble (why output of procs may
be lost); state (alive, suspect, unknown or dead), reason, silence (nanoseconds since it was heard).`,
		Example: "  castnet hosts\n  castnet hosts --label zone=a\n  castnet hosts drain n07 n08 --reason 'new " +
			"disks'\n  castnet hosts --output json",
		Args: flags.WantCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
				return listHosts(ctx, a.Printer, conn, pick)
			})
		},
	}
	flags.Add(
		c.PersistentFlags(), &pick.Labels, "label", "KEY=VALUE",
		"only hosts with these labels; several with commas between", flags.Labels,
	)
	_ = c.RegisterFlagCompletionFunc("label",
		func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return a.Complete(candidates.HostLabels)(c, nil, prefix)
		})
	for _, d := range hostActions {
		c.AddCommand(hostActionCommand(a, d, &pick))
	}
	c.AddCommand(hostsRestartCommand(a, &pick))
	return c
}

func listHosts(ctx context.Context, out *output.Printer, conn *mesh.Net, pick target.HostSelector) error {
	inv, picked, err := pick.Find(ctx, conn)
	if err != nil {
		return err
	}
	if len(pick.Labels) > 0 {
		inv.Hosts = slices.DeleteFunc(inv.Hosts, func(h mesh.HostState) bool { // a silent host may have the labels
			return h.State == agent.HostAlive && !slices.ContainsFunc(picked, func(p agent.HostInfo) bool {
				return p.ID == h.ID
			})
		})
	}
	if len(inv.Unconfirmed) > 0 {
		out.Notef("left out %s that answered, but have no agent: %s", text.Pluralize(len(inv.Unconfirmed), "host"),
			target.HostNames(inv.Unconfirmed))
	}
	return errors.Join(showHosts(out, inv.Hosts), inv.Err())
}

// showHosts prints the hosts without empty columns.
func showHosts(out *output.Printer, hosts []mesh.HostState) error {
	labelled := slices.ContainsFunc(hosts, func(h mesh.HostState) bool { return len(h.Labels) > 0 })
	explained := slices.ContainsFunc(hosts, func(h mesh.HostState) bool { return hostReason(h) != "" })
	builds := map[string]bool{}
	for _, h := range hosts {
		if h.State == agent.HostAlive {
			builds[h.Build] = true
		}
	}
	columns := []string{"host", "status", "id", "procs", "cpus", "pid", "age", "version"}
	if len(builds) > 1 {
		columns = append(columns, "build")
	}
	if labelled {
		columns = append(columns, "labels")
	}
	if explained {
		columns = append(columns, "reason")
	}
	return output.Records(out, hosts, columns, func(h mesh.HostState) []string {
		row := []string{h.Label, hostStatus(out, h), h.ID.String(), "-", "-", "-", "-", "-"}
		if h.State == agent.HostAlive {
			row = append(row[:3], strconv.Itoa(h.Procs), strconv.Itoa(h.CPUs), strconv.Itoa(h.PID),
				text.Age(time.Since(h.Started)),
				text.OrDash(shortVersion(h.Version)))
		}
		if len(builds) > 1 {
			row = append(row, text.OrDash(text.Shorten(h.Build, 13)))
		}
		if labelled {
			row = append(row, text.OrDash(target.FormatLabels(h.Labels)))
		}
		if explained {
			row = append(row, text.Reason(hostReason(h)))
		}
		return row
	})
}

// hostReason explains a closed or unhealthy host, and names the trouble of its log disk.
func hostReason(h mesh.HostState) string {
	if h.State == agent.HostAlive {
		return strings.Trim(h.ModeReason+"; "+h.LogTrouble, "; ")
	}
	if h.Silence == 0 {
		return h.Reason
	}
	return fmt.Sprintf("last heard %s ago", text.Age(h.Silence))
}

// hostStatus formats the status of a host: for a live host without procs permitted, its mode.
func hostStatus(out *output.Printer, h mesh.HostState) string {
	switch {
	case h.State == agent.HostDead:
		return out.Paint(output.Red, h.State)
	case h.State != agent.HostAlive:
		return out.Paint(output.Yellow, h.State)
	case h.Mode == agent.ModeOpen:
		return out.Paint(output.Green, h.State)
	case h.Mode == agent.ModeLeaving:
		return out.Paint(output.Grey, string(h.Mode))
	}
	return out.Paint(output.Yellow, string(h.Mode))
}

// shortVersion shortens a version for tables; an untagged one becomes the commit.
func shortVersion(v string) string {
	parts := strings.Split(v, "-")
	if commit, dirty, _ := strings.Cut(parts[len(parts)-1], "+"); len(parts) >= 3 && len(commit) == 12 {
		return strings.TrimSuffix(commit+"+"+dirty, "+")
	}
	return v
}
