package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// upSpec is the validated input of `up`.
type upSpec struct {
	name    string
	perHost shape.Extent
	command mesh.Command
	actor   string // actor type; "" = procs only
	params  any
	lease   time.Duration
	noHostd bool
	hosts   hostSelector
	detach  bool
	policy  mesh.Policy // of the procs, and of owned actors
}

// upFlags are the flags of upSpec.
type upFlags struct {
	perHost                shape.Extent
	actor, params, command string
	args                   []string
	lease                  time.Duration
	noHostd                bool
	policy                 mesh.Policy
}

func (a *app) upCommand() *cobra.Command {
	f := upFlags{perHost: shape.Of("gpu", 4)}
	c := &cobra.Command{
		Use:   "up [NAME]",
		Short: "Start a mesh on every host and hold it",
		Long: `Start a mesh of procs on every host that takes procs, with an actor in each, and hold it. Hosts
that are cordoned, drained or leaving are skipped and listed. The mesh ends with this command, at
Ctrl-C or by castnet stop; castnet spawn --detach starts one that continues. If this command is
killed, the procs end when their lease expires.

Without --command, procs run the hosts' built-in actors: counter (params: an integer; asked
add, get, reset), echo, and plain (params: {"subject":"work.{rank}"}; asked ask, tell), whose
ranks are served by any program that replies on that subject. With --command, procs run a program
whose main calls proc.Main. It must have the same absolute path on every host, and be allowed there
(hostd --allow).

If no bus is named or found, a hostd is started, and stopped with the mesh.

JSON and NDJSON: a line when the mesh is up (kind "up", mesh, label, extent, ranks, hosts,
actor, type), then a line for each proc or actor that ends, as in castnet's events.`,
		Example: `  castnet up
  castnet up trainers --per-host gpu=8 --actor echo
  castnet up demo --per-host zone=2,gpu=4 --actor counter --params 100
  castnet up scripts --actor plain --params '{"subject":"work.{rank}"}'
  castnet up words --command /opt/words/bin/words --actor worker --params '{"top":20}'`,
		Args:              wantArgs(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fs := c.Flags()
	addFlag(fs, &f.perHost, "per-host", "EXTENT", "procs on each host, such as 4 or gpu=4 (default gpu=4)", readProcs)
	f.register(c)
	fs.BoolVar(&f.noHostd, "no-hostd", false, "do not start a hostd if no bus is found")
	c.RunE = func(c *cobra.Command, args []string) error {
		u, err := f.spec(slices.Concat(args, []string{"demo"})[0])
		if err != nil {
			return err
		}
		return a.up(c.Context(), u)
	}
	return c
}

// checkPerHost refuses more procs than a host permits.
func checkPerHost(e shape.Extent, err error) (shape.Extent, error) {
	if n := e.NumRanks(); err == nil && n > agent.MaxPerHost {
		return e, fmt.Errorf("%d procs on each host: want at most %d", n, agent.MaxPerHost)
	}
	return e, err
}

// register adds the flags to a command.
func (f *upFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.actor, "actor", "counter", "`TYPE` of the actor in each proc; \"\" for none")
	fs.StringVar(&f.params, "params", "", "`JSON` the parameters of each actor")
	fs.StringVar(&f.command, "command", "", "`PATH` of the program procs run (default the hosts' built-in actors)")
	fs.StringArrayVar(&f.args, "arg", nil, "`ARGUMENT` of the program; may be repeated")
	addFlag(fs, &f.policy.Recovery, "recovery", "POLICY",
		"recovery of failed procs and actors: propagate, restart or drop (default propagate)", readRecovery)
	fs.DurationVar(&f.lease, "lease", 0, "how long procs outlive their owner when it is killed (default supervision.lease-ttl)")
	_ = c.RegisterFlagCompletionFunc("recovery", cobra.FixedCompletions(recoveries(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("actor", cobra.FixedCompletions([]string{"counter", "echo", "plain"}, cobra.ShellCompDirectiveNoFileComp))
}

// recoveries lists the policies without parameters.
func recoveries() []string {
	return []string{mesh.Propagate.String(), mesh.Restart.String(), mesh.Drop.String()}
}

func readRecovery(text string) (r controller.Recovery, err error) {
	if !slices.Contains(recoveries(), text) {
		return r, fmt.Errorf("want %s", strings.Join(recoveries(), ", "))
	}
	return r, r.UnmarshalText([]byte(text))
}

// spec validates all flags before anything starts.
func (f upFlags) spec(name string) (upSpec, error) {
	u := upSpec{name: name, perHost: f.perHost, actor: f.actor, lease: f.lease, noHostd: f.noHostd, policy: f.policy, command: mesh.Command{Path: agent.Builtin}}
	if err := subjects.CheckLabel("mesh", name); err != nil {
		return u, err
	}
	if u.actor != "" {
		if err := actor.NewType[any, any](u.actor).Err(); err != nil {
			return u, fmt.Errorf("--actor: %w", err)
		}
	}
	var err error
	u.params, err = parseValue("--params", f.params)
	if err != nil {
		return u, err
	}
	if u.lease != 0 && u.lease < time.Second {
		return u, cli.Usagef("--lease is %s, want 1s or more", u.lease)
	}
	switch {
	case f.command != "" && !filepath.IsAbs(f.command):
		return u, cli.Usagef("--command %q: want the absolute path it has on every host", f.command)
	case f.command != "":
		u.command = mesh.Command{Path: f.command, Args: f.args}
	case len(f.args) > 0:
		return u, cli.Usagef("--arg %q is for a program: want --command with it", strings.Join(f.args, " "))
	}
	return u, nil
}

// up starts the mesh, and a hostd if none runs, and holds both until the end.
func (a *app) up(ctx context.Context, u upSpec) (err error) {
	net, node, err := a.connectOrStart(ctx, u)
	if node != nil {
		defer func() { err = errors.Join(err, node.stop()) }() // after the end of the mesh
	}
	if err != nil {
		return a.orInterrupted(ctx, err)
	}
	return a.runAndClose(ctx, net, func(net *mesh.Net) error {
		h, err := a.startMesh(ctx, net, u)
		if err != nil {
			return err
		}
		return h.attach(ctx, node)
	})
}

// startMesh spawns procs and actors and prints the banner.
func (a *app) startMesh(ctx context.Context, net *mesh.Net, u upSpec) (*heldMesh, error) {
	bar := a.newProgress()
	defer bar.clear()
	bar.message("looking for hosts")
	hosts, passed, err := u.hosts.attach(ctx, net)
	if err != nil {
		return nil, err
	}
	if len(passed) > 0 {
		bar.clear()
		a.notef("skipped %s", &mesh.UnschedulableError{Hosts: passed})
	}
	n := hosts.Extent().NumRanks() * u.perHost.NumRanks()
	bar.message(fmt.Sprintf("starting %s on %s", pluralize(n, "proc"), pluralize(hosts.Extent().NumRanks(), "host")))
	h := &heldMesh{app: a, spec: u, net: net, hosts: hosts.Infos()}
	h.procs, err = hosts.SpawnProcs(ctx, mesh.SpawnSpec{
		Name: u.name, PerHost: u.perHost, Command: u.command, Lease: u.lease, Policy: u.policy, TakeName: true,
	})
	if err != nil {
		return nil, explainSpawnError(explainNameTaken(err))
	}
	if u.actor != "" {
		bar.message(fmt.Sprintf("starting %s", pluralize(n, "actor")))
		h.actors, err = mesh.SpawnActors(ctx, h.procs, actor.NewType[any, any](u.actor), mesh.ActorSpawnSpec[any]{
			Label: u.actor, Params: u.params, Policy: u.actorPolicy(), Uncontrolled: u.detach, // else they end with this command
		})
		if err != nil {
			return nil, explainSpawnError(err)
		}
	}
	if u.detach {
		bar.message("handing it over to the system controller")
		h.handover, err = h.procs.Detach(ctx)
		if err != nil {
			return nil, err
		}
		h.procs = h.handover.Procs
	}
	bar.clear()
	return h, h.printBanner(ctx)
}

// actorPolicy returns the policy of the actors. A detached mesh has no owner to apply one.
func (u upSpec) actorPolicy() mesh.Policy {
	if u.detach {
		return mesh.Policy{}
	}
	return u.policy
}

// explainNameTaken adds advice to the error of a name in use.
func explainNameTaken(err error) error {
	t, taken := errors.AsType[*mesh.NameTakenError](err)
	if !taken {
		return err
	}
	if t.Kind == "program" {
		return fmt.Errorf("%w: want another name", t)
	}
	return fmt.Errorf("%w: want another name, or `castnet stop %s` first", t, t.Name)
}

// pluralize formats a number with its noun.
func pluralize(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "sh"):
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
