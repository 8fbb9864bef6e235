package heldmesh

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
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// Register adds the flags to a command.
func (f *Flags) Register(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.actor, "actor", "counter", "`TYPE` of the actor in each proc; \"\" for none")
	fs.StringVar(&f.params, "params", "", "`JSON` with the parameters of each actor")
	fs.StringVar(
		&f.command, "command", "", "`PATH` of the program procs run (default the hosts' built-in actors)",
	)
	fs.StringArrayVar(&f.args, "arg", nil, "`ARGUMENT` of the program; may be repeated")
	fs.StringArrayVar(&f.env, "env", nil, "`KEY=VALUE` in the environment of the procs; may be repeated")
	cli.AllowEmpty(fs, "actor", "arg")
	fs.BoolVar(&f.keep, "keep", false, "procs outlive their hostd, which needs a --state-dir")
	flags.Add(fs, &f.restartPolicy.Restart, "restart", "POLICY", "what follows the failure of a rank: "+
		"propagate (to the mesh), temporary (none) or transient (a restart; default propagate)", readRestart)
	flags.Add(fs, &f.spares, "spares", "N", "hosts to keep free: ranks of a failed or drained host move there; "+
		"needs --restart transient (default none)", flags.Count)
	flags.Add(fs, &f.memory, "memory", "SIZE", "memory limit of each proc, such as 512MiB", readSize)
	flags.Add(fs, &f.limits.CPU, "cpu", "CORES", "CPU limit of each proc, such as 1.5", readCores)
	flags.Add(fs, &f.limits.PinnedCPUs, "pinned-cpus", "N", "CPUs to pin each proc to", flags.Count)
	flags.Add(fs, &f.limits.Pids, "pids", "N", "limit of processes and threads of each proc", flags.Count)
	flags.Add(fs, &f.limits.Files, "files", "N", "limit of open files of each proc", flags.Count)
	fs.DurationVar(
		&f.lease, "lease", 0,
		"how long procs outlive their owner when it is killed (default supervision.lease-ttl)",
	)
	_ = c.RegisterFlagCompletionFunc(
		"restart", cobra.FixedCompletions(restarts(), cobra.ShellCompDirectiveNoFileComp),
	)
	_ = c.RegisterFlagCompletionFunc(
		"actor", cobra.FixedCompletions([]string{"counter", "echo", "plain"}, cobra.ShellCompDirectiveNoFileComp),
	)
}

// Spec validates all flags before anything starts.
func (f Flags) Spec(name string) (Spec, error) {
	u := Spec{
		name: name, perHost: f.PerHost, Actor: f.actor, lease: f.lease, noHostd: f.NoHostd,
		RestartPolicy: f.restartPolicy, spares: f.spares, limits: f.limits, keep: f.keep,
		command: mesh.Command{Path: agent.Builtin, Env: f.env},
	}
	for _, e := range f.env {
		if key, _, ok := strings.Cut(e, "="); !ok || key == "" {
			return u, cli.Usagef("--env %q: want KEY=VALUE", e)
		}
	}
	if err := subjects.CheckLabel("mesh", name); err != nil {
		return u, err
	}
	if u.Actor != "" {
		if err := actor.NewType[any, any](u.Actor).Err(); err != nil {
			return u, fmt.Errorf("--actor: %w", err)
		}
	}
	var err error
	u.params, err = target.ParseValue("--params", f.params)
	if err != nil {
		return u, err
	}
	u.limits.Memory = int64(f.memory)
	if err := u.limits.Check(); err != nil {
		return u, cli.WithCode(cli.ExitUsage, err)
	}
	if u.spares > 0 && !u.RestartPolicy.Restarts() {
		return u, cli.Usagef("--spares %d: want --restart transient with it", u.spares)
	}
	if u.lease != 0 && u.lease < time.Second {
		return u, cli.Usagef("--lease is %s, want 1s or more", u.lease)
	}
	switch {
	case f.command != "" && !filepath.IsAbs(f.command):
		return u, cli.Usagef("--command %q: want the absolute path it has on every host", f.command)
	case f.command != "":
		u.command.Path = f.command
		u.command.Args = f.args
	case len(f.args) > 0:
		return u, cli.Usagef("--arg %q is for a program: want --command with it", strings.Join(f.args, " "))
	}
	return u, nil
}

// Run starts the mesh, and a hostd if none runs, and holds both until the end.
func Run(ctx context.Context, a *app.App, u Spec) (err error) {
	conn, node, err := connectOrStart(ctx, a, u)
	if node != nil {
		defer func() { err = errors.Join(err, node.stop()) }() // after the end of the mesh
	}
	if err != nil {
		return a.OrInterrupted(ctx, err)
	}
	return a.RunAndClose(ctx, conn, actor.DefaultDeadline, func(conn *mesh.Net) error {
		h, err := startMesh(ctx, a, conn, u)
		if err != nil {
			return err
		}
		return h.attach(ctx, node)
	})
}

// startMesh spawns procs and actors and prints the banner.
func startMesh(ctx context.Context, a *app.App, conn *mesh.Net, u Spec) (*heldMesh, error) {
	bar := a.NewProgress()
	defer bar.Clear()
	bar.Message("looking for hosts")
	hosts, passed, err := u.Hosts.Attach(ctx, conn)
	if err != nil {
		return nil, err
	}
	if len(passed) > 0 {
		bar.Clear()
		a.Notef("skipped %s", &mesh.UnschedulableError{Hosts: passed})
	}
	hosts, err = u.withoutSpares(hosts)
	if err != nil {
		return nil, err
	}
	n := hosts.Extent().NumRanks() * u.perHost.NumRanks()
	bar.Message(
		fmt.Sprintf(
			"starting %s on %s", text.Pluralize(n, "proc"), text.Pluralize(hosts.Extent().NumRanks(), "host"),
		),
	)
	h := &heldMesh{App: a, spec: u, net: conn, hosts: hosts.Infos()}
	h.procs, err = hosts.SpawnProcs(ctx, mesh.SpawnSpec{
		Name: u.name, PerHost: u.perHost, Command: u.command, Lease: u.lease, RestartPolicy: u.RestartPolicy,
		Limits: u.limits, TakeName: true, Keep: u.keep,
	})
	if err != nil {
		return nil, ExplainSpawnError(explainNameTaken(err))
	}
	if u.Actor != "" {
		bar.Message(fmt.Sprintf("starting %s", text.Pluralize(n, "actor")))
		h.actors, err = mesh.SpawnActors(ctx, h.procs, actor.NewType[any, any](u.Actor), mesh.ActorSpawnSpec[any]{
			// else they end with this command
			Label: u.Actor, Params: u.params, RestartPolicy: u.actorRestartPolicy(), Uncontrolled: u.Detach,
		})
		if err != nil {
			return nil, ExplainSpawnError(err)
		}
	}
	if u.Detach {
		bar.Message("handing it over to the system controller")
		h.handover, err = h.procs.Detach(ctx)
		if err != nil {
			return nil, err
		}
		h.procs = h.handover.Procs
	}
	bar.Clear()
	h.noteUnenforcedLimits(ctx)
	return h, h.printBanner(ctx)
}

// withoutSpares keeps the last hosts free, as spares of the restart policy.
func (u *Spec) withoutSpares(hosts mesh.HostMesh) (mesh.HostMesh, error) {
	all := hosts.Hosts()
	n := len(all) - u.spares
	if n < u.spares || n == 0 {
		return hosts, fmt.Errorf("--spares %d of %s: want at most one for each host of the mesh", u.spares,
			text.Pluralize(len(all), "host"))
	}
	u.RestartPolicy.Spares = all[n:]
	if u.spares == 0 {
		return hosts, nil
	}
	return hosts.Slice(hosts.Extent().Dims()[0].Label, 0, n), nil
}

// noteUnenforcedLimits names the limits that a host cannot enforce.
func (h *heldMesh) noteUnenforcedLimits(ctx context.Context) {
	if h.spec.limits == (mesh.Limits{}) {
		return
	}
	states, _ := h.procs.States(ctx) // silent hosts are the next command's matter
	var noted []string
	for _, s := range states.Values() {
		if s.Proc == nil {
			continue
		}
		for _, limit := range s.Proc.Unenforced {
			if !slices.Contains(noted, limit) {
				noted = append(noted, limit)
				h.Notef("%s cannot enforce a limit: %s", text.HostLabel(s.Proc.Host), limit)
			}
		}
	}
}

// actorRestartPolicy returns the policy of the actors. They follow their procs to spares. A
// detached mesh has no owner to apply one.
func (u Spec) actorRestartPolicy() mesh.RestartPolicy {
	if u.Detach {
		return mesh.RestartPolicy{}
	}
	return mesh.RestartPolicy{Restart: u.RestartPolicy.Restart}
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

func Spawn(ctx context.Context, a *app.App, conn *mesh.Net, u Spec) error {
	h, err := startMesh(ctx, a, conn, u)
	if err != nil || u.Detach {
		return err
	}
	return h.attach(ctx, nil)
}
