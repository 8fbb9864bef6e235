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
	"github.com/castnet-io/castnet/mesh"
)

func (a *app) hostsCommand() *cobra.Command {
	var pick hostPick
	c := &cobra.Command{
		Use:   "hosts",
		Short: "List the hosts on the bus, cordon, drain or shut them down",
		Long: `List every hostd that answers on the bus, and those that gateways or owners of meshes expect and
that do not: suspect, unknown or dead, until they have been dead for an hour (discovery.remember). A
host that has left in order is not expected. When one does not answer, or --timeout ended the
search, the exit code is 4. Columns that have nothing to say are left out.

JSON: id, label, version, build, pid, procs (alive), started, cpus, labels, mode (open,
cordoned, draining or leaving), why, local, trees; state (alive, suspect, unknown or dead),
reason, silence (nanoseconds since it was heard).`,
		Example: "  client hosts\n  client hosts --label zone=a\n  client hosts drain n07 n08 --reason 'new disks'\n  client hosts --output json",
		Args:    wantCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.dial(c.Context(), func(ctx context.Context, net *mesh.Net) error { return a.hosts(ctx, net, pick) })
		},
	}
	readFlag(c.PersistentFlags(), &pick.labels, "label", "KEY=VALUE", "only hosts with these labels; several with commas between", readLabels)
	_ = c.RegisterFlagCompletionFunc("label", func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return a.complete(hostLabelPairs)(c, nil, prefix)
	})
	for _, d := range hostDeeds {
		c.AddCommand(a.hostDeedCommand(d, &pick))
	}
	c.AddCommand(a.hostsRestartCommand(&pick))
	return c
}

func (a *app) hosts(ctx context.Context, net *mesh.Net, pick hostPick) error {
	inv, err := net.Inventory(ctx)
	if err != nil {
		return err
	}
	if len(pick.labels) > 0 {
		picked, err := pick.of(inv.Hosts)
		if err != nil {
			return err
		}
		inv.Hosts = slices.DeleteFunc(inv.Hosts, func(h mesh.HostState) bool { // a silent host may have the labels
			return h.State == agent.HostAlive && !slices.ContainsFunc(picked, func(p agent.HostInfo) bool { return p.ID == h.ID })
		})
	}
	columns, row := a.hostTable(inv.Hosts)
	return errors.Join(show(a, inv.Hosts, columns, row), inv.Err())
}

// hostTable is the columns that have something to say, and how a host fills them.
func (a *app) hostTable(hosts []mesh.HostState) ([]string, func(mesh.HostState) []string) {
	labelled := slices.ContainsFunc(hosts, func(h mesh.HostState) bool { return len(h.Labels) > 0 })
	explained := slices.ContainsFunc(hosts, func(h mesh.HostState) bool { return whyHost(h) != "" })
	builds := map[string]bool{}
	for _, h := range hosts {
		if h.State == agent.HostAlive {
			builds[h.Build] = true
		}
	}
	columns := []string{"host", "status", "id", "procs", "cpus", "pid", "up", "version"}
	if len(builds) > 1 {
		columns = append(columns, "build")
	}
	if labelled {
		columns = append(columns, "labels")
	}
	if explained {
		columns = append(columns, "why")
	}
	return columns, func(h mesh.HostState) []string {
		row := []string{h.Label, a.hostStatus(h), h.ID.String(), "-", "-", "-", "-", "-"}
		if h.State == agent.HostAlive {
			row = append(row[:3], strconv.Itoa(h.Procs), strconv.Itoa(h.CPUs), strconv.Itoa(h.PID), age(time.Since(h.Started)),
				orDash(shortVersion(h.Version)))
		}
		if len(builds) > 1 {
			row = append(row, orDash(shorten(h.Build, 13)))
		}
		if labelled {
			row = append(row, orDash(labelText(h.Labels)))
		}
		if explained {
			row = append(row, orDash(shorten(whyHost(h), 60)))
		}
		return row
	}
}

// whyHost is why a host takes no procs, or is not known to be alive.
func whyHost(h mesh.HostState) string {
	switch {
	case h.State == agent.HostAlive:
		return h.Why
	case h.Silence == 0:
		return h.Reason
	}
	return fmt.Sprintf("last heard %s ago", age(h.Silence))
}

// hostStatus paints how a host is: the mode of one that is alive and takes no procs.
func (a *app) hostStatus(h mesh.HostState) string {
	switch {
	case h.State == agent.HostDead:
		return a.paint(red, h.State)
	case h.State != agent.HostAlive:
		return a.paint(yellow, h.State)
	case h.Mode == agent.Open, h.Mode == "": // a host of an older version says nothing
		return a.paint(green, h.State)
	case h.Mode == agent.Leaving:
		return a.paint(grey, string(h.Mode))
	}
	return a.paint(yellow, string(h.Mode))
}

// shortVersion is a version for tables: of one that no tag has, the commit.
func shortVersion(v string) string {
	parts := strings.Split(v, "-")
	if commit, dirty, _ := strings.Cut(parts[len(parts)-1], "+"); len(parts) >= 3 && len(commit) == 12 {
		return strings.TrimSuffix(commit+"+"+dirty, "+")
	}
	return v
}

// age is a duration as people say it, in its largest two units at most.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h" + strconv.Itoa(int(d.Minutes())%60) + "m"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}
