package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// loadConfig reads the limits of this program from its file and environment.
func (a *app) loadConfig() (*config.Config, error) {
	c := &config.Config{}
	if a.configFile != "" {
		said, err := cli.ReadConfigFile(a.configFile)
		if err != nil {
			return nil, err
		}
		if err := c.LoadFile(said); err != nil {
			return nil, err
		}
	}
	return c, c.LoadEnv(a.getenv)
}

func (a *app) configCommand() *cobra.Command {
	return groupCommand(&cobra.Command{Use: "config COMMAND", Short: "Show limits and the sources of their values"}, a.configShowCommand())
}

func (a *app) configShowCommand() *cobra.Command {
	var changed bool
	var host string
	c := &cobra.Command{
		Use:   "show [PROC]",
		Short: "Show the limits of this command, of a proc or of a host",
		Long: `Show every limit, its value and who said it: those that this command would push to what it
spawns; with PROC, one rank as MESH[region] or by its ID, those that the proc goes by.

JSON: name, value, default, layer, place, changed, env, local, doc.`,
		Example: `  castnet config show --changed
  castnet --config castnet.yaml config show
  castnet config show 'demo[host=0,gpu=1]'
  castnet config show --host n07`,
		Args:              wantArgs(0, 1),
		ValidArgsFunction: a.complete(liveNames),
	}
	c.Flags().BoolVar(&changed, "changed", false, "show only non-default values")
	c.Flags().StringVar(&host, "host", "", "show the limits of the host with this `LABEL` or ID")
	_ = c.RegisterFlagCompletionFunc("host", func(c *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return a.complete(hostNames)(c, nil, prefix)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 && host != "" {
			return cli.Usagef("config show: want PROC or --host, not both")
		}
		if len(args) == 0 && host == "" {
			own, err := a.loadConfig()
			if err != nil {
				return err
			}
			return a.showConfig(own.Entries(), changed)
		}
		find, err := newAgentFinder(host, strings.Join(args, ""))
		if err != nil {
			return err
		}
		return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error {
			id, err := find(ctx, net)
			if err != nil {
				return err
			}
			entries, err := agent.GetConfig.Call(ctx, agent.Of(id).Via(net.Proc()), actor.None{})
			if err != nil {
				return err
			}
			return a.showConfig(entries, changed)
		})
	}
	return c
}

// agentFinder finds the proc of an agent.
type agentFinder func(ctx context.Context, net *mesh.Net) (subjects.ProcID, error)

// newAgentFinder returns a finder for the agent of a host or of a proc.
func newAgentFinder(host, proc string) (agentFinder, error) {
	if host != "" {
		return func(ctx context.Context, net *mesh.Net) (subjects.ProcID, error) { return agentOfHost(ctx, net, host) }, nil
	}
	if strings.Contains(proc, "/") {
		id, err := subjects.ParseProcID(proc)
		return func(context.Context, *mesh.Net) (subjects.ProcID, error) { return id, nil }, err
	}
	t, err := parseTarget(proc)
	return func(ctx context.Context, net *mesh.Net) (subjects.ProcID, error) { return agentOfRank(ctx, net, t) }, err
}

func agentOfHost(ctx context.Context, net *mesh.Net, host string) (subjects.ProcID, error) {
	_, picked, err := hostSelector{names: []string{host}}.find(ctx, net)
	if err != nil {
		return subjects.ProcID{}, err
	}
	return picked[0].ID.Proc(), nil
}

func agentOfRank(ctx context.Context, net *mesh.Net, t target) (subjects.ProcID, error) {
	p, err := t.resolve(ctx, net)
	if err != nil {
		return subjects.ProcID{}, err
	}
	if n := p.region.NumRanks(); n != 1 {
		return subjects.ProcID{}, cli.Usagef("config show %s: want one proc, but it has %d (%s)", t, n, p.base)
	}
	gen, err := currentGen(ctx, net, p)
	return p.procs.Describe().ProcID(p.rank(0), gen), err
}

// currentGen returns the present generation of the target's rank.
func currentGen(ctx context.Context, net *mesh.Net, p resolvedTarget) (int, error) {
	meshes, err := net.Meshes(ctx)
	for _, m := range meshes {
		for _, s := range m.States {
			if m.Procs.ID() == p.procs.ID() && s.Rank == p.rank(0) {
				return s.Gen, nil
			}
		}
	}
	return 0, err
}

// showConfig prints all keys, or only the changed ones.
func (a *app) showConfig(entries []config.Entry, changed bool) error {
	if a.output == asTable {
		return cli.WriteConfig(a.stdout, entries, changed)
	}
	var list []config.Entry
	for _, e := range entries {
		if e.Changed || !changed {
			list = append(list, e)
		}
	}
	return showRecords(a, list, nil, func(config.Entry) []string { return nil })
}
