package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/internal/metrics"
	"github.com/castnet-io/castnet/mesh"
)

// maxMetricsCalls bounds the concurrent requests to hosts.
const maxMetricsCalls = 256

func metricsCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "metrics [HOST...]",
		Short: "Print the metrics of hosts and their procs once",
		Long: `Print the metrics of hosts and of their procs, in the text format of Prometheus: of the named hosts
by label or ID, or of all. hostd --http serves those of one host at /metrics.

Procs count together by the name of their mesh; the mesh of the host itself is "". The exit code is 4
if a host did not answer.

JSON: host, meshes (mesh, ranks, silent, restarts, cpu_time, memory, stats, reconnects, types, casts,
leases, gateway, detections, execs, dropped). docs/metrics.md has all keys.`,
		Example:           "  castnet metrics\n  castnet metrics n07 | grep castnet_stuck_actors",
		ValidArgsFunction: a.Complete(candidates.Hosts),
		RunE: func(c *cobra.Command, args []string) error {
			return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
				return printMetrics(ctx, a.Printer, conn, target.HostSelector{Names: args})
			})
		},
	}
}

// printMetrics asks the hosts at once. It prints the answers before an error about missing ones.
func printMetrics(ctx context.Context, out *output.Printer, conn *mesh.Net, of target.HostSelector) error {
	inv, infos, err := of.Find(ctx, conn)
	if err != nil {
		return err
	}
	all := make([]agent.Metrics, len(infos))
	errs := make([]error, len(infos))
	fanout.Each(maxMetricsCalls, infos, func(i int, h agent.HostInfo) {
		all[i], errs[i] = agent.GetMetrics.Call(ctx, agent.Of(h.ID.Proc()).Via(conn.Proc()), actor.None{})
	})
	answered := all[:0]
	for i, err := range errs {
		if err == nil {
			answered = append(answered, all[i])
		}
	}
	if out.Format == output.Table {
		err = metrics.Write(out.Stdout, answered)
	} else {
		err = output.Records(out, answered, nil, nil)
	}
	if err != nil {
		return err
	}
	for i, err := range errs {
		if err != nil {
			return cli.WithCode(cli.ExitPartial, fmt.Errorf("no metrics of host %s: %w", infos[i].Label, err))
		}
	}
	if len(of.Names) > 0 {
		return nil // Find refuses a name without an answer
	}
	return inv.Err()
}
