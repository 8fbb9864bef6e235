package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

func configCommand(a *app.App) *cobra.Command {
	return flags.GroupCommand(
		&cobra.Command{Use: "config COMMAND", Short: "Show limits and the sources of their values"},
		configShowCommand(a),
	)
}

func configShowCommand(a *app.App) *cobra.Command {
	var changed bool
	var host string
	c := &cobra.Command{
		Use:   "show [PROC]",
		Short: "Show the limits of this command, of a proc or of a host",
		Long: `Show every limit, its value and who said it: those that this command would push to what it
spawns; with PROC, one rank as MESH[region] or by its ID, those that the proc goes by.

JSON: name, value, default, layer, source, changed, env, local, doc.`,
		Example: `  castnet config show --changed
  castnet --config castnet.yaml config show
  castnet config show 'demo[host=0,gpu=1]'
  castnet config show --host n07`,
		Args:              flags.WantArgs(0, 1),
		ValidArgsFunction: a.Complete(candidates.Meshes),
	}
	c.Flags().BoolVar(&changed, "changed", false, "show only non-default values")
	c.Flags().StringVar(&host, "host", "", "show the limits of the host with this `LABEL` or ID")
	_ = c.RegisterFlagCompletionFunc("host", func(c *cobra.Command, _ []string, prefix string) ([]string,
		cobra.ShellCompDirective) {
		return a.Complete(candidates.Hosts)(c, nil, prefix)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 && host != "" {
			return cli.Usagef("config show: want PROC or --host, not both")
		}
		if len(args) == 0 && host == "" {
			own, err := a.LoadConfig()
			if err != nil {
				return err
			}
			return showConfig(a.Printer, own.Entries(), changed)
		}
		find, err := newAgentFinder(host, strings.Join(args, ""))
		if err != nil {
			return err
		}
		return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
			id, err := find(ctx, conn)
			if err != nil {
				return err
			}
			entries, err := agent.GetConfig.Call(ctx, agent.Of(id).Via(conn.Proc()), actor.None{})
			if err != nil {
				return err
			}
			return showConfig(a.Printer, entries, changed)
		})
	}
	return c
}

// agentFinder finds the proc of an agent.
type agentFinder func(ctx context.Context, conn *mesh.Net) (subjects.ProcID, error)

// newAgentFinder returns a finder for the agent of a host or of a proc.
func newAgentFinder(host, proc string) (agentFinder, error) {
	if host != "" {
		return func(ctx context.Context, conn *mesh.Net) (subjects.ProcID,
			error) {
			return agentOfHost(ctx, conn, host)
		}, nil
	}
	if strings.Contains(proc, "/") {
		id, err := subjects.ParseProcID(proc)
		return func(context.Context, *mesh.Net) (subjects.ProcID, error) { return id, nil }, err
	}
	t, err := target.Parse(proc)
	return func(
		ctx context.Context, conn *mesh.Net,
	) (subjects.ProcID, error) {
		return agentOfRank(ctx, conn, t)
	}, err
}

func agentOfHost(ctx context.Context, conn *mesh.Net, host string) (subjects.ProcID, error) {
	_, picked, err := target.HostSelector{Names: []string{host}}.Find(ctx, conn)
	if err != nil {
		return subjects.ProcID{}, err
	}
	return picked[0].ID.Proc(), nil
}

func agentOfRank(ctx context.Context, conn *mesh.Net, t target.Target) (subjects.ProcID, error) {
	p, err := t.Resolve(ctx, conn)
	if err != nil {
		return subjects.ProcID{}, err
	}
	if n := p.Region.NumRanks(); n != 1 {
		return subjects.ProcID{}, cli.Usagef("config show %s: want one proc, but it has %d (%s)", t, n, p.Base)
	}
	gen, err := currentGen(ctx, conn, p)
	return p.Procs.Describe().ProcID(p.Rank(0), gen), err
}

// currentGen returns the present generation of the target's rank.
func currentGen(ctx context.Context, conn *mesh.Net, p target.Resolved) (int, error) {
	m := p.Procs.Describe()
	meshes, err := conn.MeshesOn(ctx, m.Hosts[p.Rank(0)/m.PerHost:][:1])
	for _, m := range meshes {
		for _, s := range m.States {
			if m.Procs.ID() == p.Procs.ID() && s.Rank == p.Rank(0) {
				return s.Gen, nil
			}
		}
	}
	return 0, err
}

// showConfig prints all keys, or only the changed ones.
func showConfig(out *output.Printer, entries []config.Entry, changed bool) error {
	if out.Format == output.Table {
		return cli.WriteConfig(out.Stdout, entries, changed)
	}
	var list []config.Entry
	for _, e := range entries {
		if e.Changed || !changed {
			list = append(list, e)
		}
	}
	return output.Records(out, list, nil, func(config.Entry) []string { return nil })
}
