package main

import (
	"context"
	"slices"
	"strconv"
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
		Long: `List every hostd that answers on the bus. A column for labels, for the mode of hosts and for
why they take no procs is there when one has something to say.

JSON: id, label, version, build, pid, procs (alive), started, cpus, labels, mode (open,
cordoned, draining or leaving), why, local, trees.`,
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
	hosts, err := net.Hosts(ctx)
	if err != nil {
		return err
	}
	infos, err := pick.of(hosts.Infos())
	if err != nil {
		return err
	}
	columns, row := a.hostTable(infos)
	return show(a, infos, columns, row)
}

// hostTable is the columns that have something to say, and how a host fills them.
func (a *app) hostTable(infos []agent.HostInfo) ([]string, func(agent.HostInfo) []string) {
	labelled := slices.ContainsFunc(infos, func(h agent.HostInfo) bool { return len(h.Labels) > 0 })
	closed := slices.ContainsFunc(infos, func(h agent.HostInfo) bool { return h.Mode != agent.Open })
	columns := []string{"host", "id", "procs", "cpus", "pid", "up", "version", "build"}
	if labelled {
		columns = append(columns, "labels")
	}
	if closed {
		columns = append(columns, "mode", "why")
	}
	return columns, func(h agent.HostInfo) []string {
		row := []string{
			h.Label, h.ID.String(), strconv.Itoa(h.Procs), strconv.Itoa(h.CPUs), strconv.Itoa(h.PID),
			age(time.Since(h.Started)), orDash(h.Version), orDash(shorten(h.Build, 13)),
		}
		if labelled {
			row = append(row, orDash(labelText(h.Labels)))
		}
		if closed {
			row = append(row, a.hostMode(h.Mode), orDash(shorten(h.Why, 60)))
		}
		return row
	}
}

// hostMode paints a mode for people.
func (a *app) hostMode(m agent.HostMode) string {
	switch m {
	case agent.Open, "": // a host of an older version says nothing
		return a.paint(green, string(agent.Open))
	case agent.Leaving:
		return a.paint(grey, string(m))
	}
	return a.paint(yellow, string(m))
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
