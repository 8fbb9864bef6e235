package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
)

func (a *app) hostsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hosts",
		Short: "List the hosts on the bus",
		Long: `List every hostd that answers on the bus.

JSON: id, label, version, build, pid, procs (alive), started, cpus.`,
		Example: "  client hosts\n  client hosts --output json",
		Args:    wantArgs(0, 0),
		RunE:    func(c *cobra.Command, _ []string) error { return a.dial(c.Context(), a.hosts) },
	}
}

func (a *app) hosts(ctx context.Context, net *mesh.Net) error {
	hosts, err := net.Hosts(ctx)
	if err != nil {
		return err
	}
	columns := []string{"host", "id", "procs", "cpus", "pid", "up", "version", "build"}
	return show(a, hosts.Infos(), columns, func(h agent.HostInfo) []string {
		return []string{
			h.Label, h.ID.String(), strconv.Itoa(h.Procs), strconv.Itoa(h.CPUs), strconv.Itoa(h.PID),
			age(time.Since(h.Started)), orDash(h.Version), orDash(shorten(h.Build, 13)),
		}
	})
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
