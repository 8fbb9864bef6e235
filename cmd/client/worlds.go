package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/system"
)

// findSystem finds the system controller.
func findSystem(ctx context.Context, net *mesh.Net) (actor.Ref[*system.Controller], error) {
	ref, err := system.Find(ctx, net.Proc())
	if errors.Is(err, system.ErrNoController) {
		err = cli.WithCode(cli.ExitNotFound, err)
	}
	return ref, err
}

func (a *app) worldsCommand() *cobra.Command {
	var f system.Filter
	c := &cobra.Command{
		Use:   "worlds [NAME…]",
		Short: "List worlds: meshes that outlive their makers",
		Long: `List the present state of worlds: their procs, their hosts, and problems. A world is declared with apply; its hosts are hostds that were started for it, with
--world and --host-rank.

JSON: name, status (awaiting creation, live or unhealthy), reason, for (nanoseconds), mesh,
shape, per_host, labels, hosts (rank, id, first, count, lost, labels), procs (id, health,
reason, failed, host, labels), ending.`,
		Example: "  castnet worlds\n  castnet worlds train -o json\n  castnet worlds --label team=vision",
		RunE: func(c *cobra.Command, args []string) error {
			f.Worlds = args
			return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error { return a.worlds(ctx, net, f) })
		},
		ValidArgsFunction: a.completeEach(worldNames),
	}
	addFlag(c.Flags(), &f.WorldLabels, "label", "KEY=VALUE", "only worlds with these labels; several with commas between", readLabels)
	addFlag(c.Flags(), &f.ProcLabels, "proc-label", "KEY=VALUE", "in each, only procs with these labels", readLabels)
	return c
}

func (a *app) worlds(ctx context.Context, net *mesh.Net, f system.Filter) error {
	ref, err := findSystem(ctx, net)
	if err != nil {
		return err
	}
	now, err := system.GetSnapshot.Call(ctx, ref, f)
	if err != nil {
		return err
	}
	if !now.Durable && len(now.Worlds) > 0 {
		a.notef("no JetStream: these worlds end with the hostd that owns them")
	}
	columns := []string{"world", "status", "for", "procs", "hosts", "labels", "reason"}
	err = showRecords(a, now.Worlds, columns, func(w system.WorldState) []string {
		return []string{
			w.Name, a.worldStatus(w), formatAge(w.For), formatProcs(w), formatHosts(w), orDash(formatLabels(w.Labels)),
			orDash(shorten(cmp.Or(w.StoppingReason, w.Reason), 70)),
		}
	})
	if len(now.Worlds) == 0 && len(f.Worlds) == 0 && len(f.WorldLabels) == 0 {
		a.notef("no worlds: `castnet apply -f FILE` declares them")
	}
	for _, name := range f.Worlds {
		if !hasWorld(now.Worlds, name) && len(f.WorldLabels) == 0 {
			return errors.Join(err, cli.WithCode(cli.ExitNotFound, &system.NotFoundError{What: "world " + name}))
		}
	}
	return err
}

func hasWorld(all []system.WorldState, name string) bool {
	for _, w := range all {
		if w.Name == name {
			return true
		}
	}
	return false
}

func (a *app) worldStatus(w system.WorldState) string {
	switch {
	case w.StoppingReason != "":
		return a.paint(grey, "stopping")
	case w.Status == system.StatusLive:
		return a.paint(green, string(w.Status))
	case w.Status == system.StatusUnhealthy:
		return a.paint(red, string(w.Status))
	}
	return a.paint(yellow, string(w.Status))
}

// formatProcs formats the number of live procs and the total.
func formatProcs(w system.WorldState) string {
	there := 0
	for _, p := range w.Procs {
		if p.Health == system.HealthAlive {
			there++
		}
	}
	if w.Shape == nil {
		return strconv.Itoa(there)
	}
	return fmt.Sprintf("%d/%d", there, w.Shape.NumRanks())
}

// formatHosts formats the labels of the hosts by rank.
func formatHosts(w system.WorldState) string {
	var out []string
	for _, h := range w.Hosts {
		text := fmt.Sprintf("%d:%s", h.Rank, h.ID.Label())
		if h.Lost != "" {
			text += "(lost)"
		} else if h.Count == 0 && w.Shape != nil {
			text += "(stands by)"
		}
		out = append(out, text)
	}
	return orDash(shorten(strings.Join(out, " "), 60))
}

// worldNames returns the names of the system's worlds, for completion.
func worldNames(ctx context.Context, net *mesh.Net, _ []string) ([]string, error) {
	ref, err := findSystem(ctx, net)
	if err != nil {
		return nil, err
	}
	now, err := system.GetSnapshot.Call(ctx, ref, system.Filter{})
	var names []string
	for _, w := range now.Worlds {
		names = append(names, w.Name)
	}
	return names, err
}

func (a *app) applyCommand(dry bool) *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Declare worlds",
		Long: `Declare the worlds of a file, one per YAML document. All are checked first: if one is refused,
none is declared. Only the labels of an existing world can change.

  name: train
  shape: { replica: 2, gpu: 4 }      # or replica=2,gpu=4
  per-host: 4                        # host rank 0 has ranks 0 to 3, host rank 1 the others
  command:                           # or only its path; builtin is hostd's own actors
    path: /usr/local/bin/trainer
    args: [--verbose]
    env: { DATA: /data }
  labels: { team: vision }
  limits: { memory: 8589934592, cpu: 2 }
  keep: false                        # procs outlive a hostd that has a --state-dir

JSON: world, mesh, status, change (create, labels or nothing).`,
		Example: "  castnet apply -f world.yaml\n  castnet apply -f - < world.yaml",
		Args:    wantArgs(0, 0),
	}
	if dry {
		c.Use = "plan -f FILE"
		c.Short = "Show what apply would change"
		c.Example = "  castnet plan -f world.yaml"
		c.Long = "Show what apply would change, and change nothing.\n\nJSON: as apply."
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "`FILE` with worlds, - for standard input; may be repeated")
	c.RunE = func(c *cobra.Command, _ []string) error {
		specs, err := worldFiles(files)
		if err != nil {
			return err
		}
		return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error { return a.apply(ctx, net, specs, dry) })
	}
	return c
}

// apply validates and declares worlds.
func (a *app) apply(ctx context.Context, net *mesh.Net, specs []system.Spec, dry bool) error {
	ref, err := findSystem(ctx, net)
	if err != nil {
		return err
	}
	done, err := upsertAll(ctx, ref, specs, true)
	if err == nil && !dry {
		done, err = upsertAll(ctx, ref, specs, false)
	}
	if err != nil && !dry {
		return err
	}
	columns := []string{"world", "change", "status", "mesh"}
	return errors.Join(err, showRecords(a, done, columns, func(u system.UpsertResponse) []string {
		return []string{u.World, string(u.Change), orDash(string(u.Status)), orDash(u.Mesh)}
	}))
}

// upsertAll declares worlds concurrently, with one shared query of the hosts.
func upsertAll(
	ctx context.Context, ref actor.Ref[*system.Controller], specs []system.Spec, dry bool,
) (done []system.UpsertResponse, err error) {
	all, errs := make([]system.UpsertResponse, len(specs)), make([]error, len(specs))
	var wg sync.WaitGroup
	for i, s := range specs {
		wg.Go(func() { all[i], errs[i] = system.Upsert.Call(ctx, ref, system.UpsertRequest{Spec: s, Dry: dry}) })
	}
	wg.Wait()
	for i, u := range all {
		if errs[i] == nil {
			done = append(done, u)
		}
	}
	return done, errors.Join(errs...)
}

// deleteTimeoutMargin is the time of a delete beyond the worlds' stop time.
const deleteTimeoutMargin = 5 * time.Second

func (a *app) deleteCommand() *cobra.Command {
	var files []string
	var timeout time.Duration
	var reason string
	c := &cobra.Command{
		Use:   "delete NAME…",
		Short: "Stop and remove worlds",
		Long: `Stop every proc of the worlds and remove them: SIGTERM, and SIGKILL after the time limit. The
command waits for their ends until the timeout, and reports aborted procs and silent hosts (exit
code 4). Hosts stay, and join a world of that name again.

JSON: world, stopped, aborted, silent.`,
		Example:           "  castnet delete train\n  castnet delete -f world.yaml --stop-timeout 30s",
		ValidArgsFunction: a.completeEach(worldNames),
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "`FILE` with worlds; may be repeated")
	c.Flags().StringVar(&reason, "reason", "", "`REASON` to record")
	addFlag(c.Flags(), &timeout, "stop-timeout", "DURATION", "time limit (default: the system's own, 8s)", readPositiveDuration)
	c.RunE = func(c *cobra.Command, names []string) error {
		if len(files) > 0 {
			specs, err := worldFiles(files)
			if err != nil {
				return err
			}
			for _, s := range specs {
				names = append(names, s.Name)
			}
		}
		if len(names) == 0 {
			return cli.Usagef("delete: want the names of worlds, or -f FILE; `castnet worlds` lists them")
		}
		s := system.StopRequest{Worlds: names, Timeout: timeout, Reason: reason}
		return a.withNet(c.Context(), func(net *mesh.Net) error { return a.deleteWorlds(c.Context(), net, s) })
	}
	return c
}

// deleteWorlds waits for both replies.
func (a *app) deleteWorlds(ctx context.Context, net *mesh.Net, s system.StopRequest) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.Timeout, a.conn.Timeout)+deleteTimeoutMargin)
	defer cancel()
	ref, err := findSystem(ctx, net)
	if err != nil {
		return err
	}
	port := actor.OpenPort[system.StopReport](net.Proc())
	defer port.Close()
	to := port.Ref()
	s.Report = &to
	accepted, err := system.Stop.Call(ctx, ref, s)
	if err != nil {
		return err
	}
	var missing []error
	for _, name := range s.Worlds {
		if why, skipped := accepted.Skipped[name]; skipped {
			missing = append(missing, fmt.Errorf("world %s: %s", name, why))
		}
	}
	report, err := port.Recv(ctx)
	if err != nil {
		return fmt.Errorf("no report of the stop: %w", err)
	}
	err = showRecords(a, report.Worlds, []string{"world", "stopped", "aborted", "silent"}, func(w system.WorldStopped) []string {
		return []string{w.World, strconv.Itoa(w.Stopped), strconv.Itoa(w.Aborted), orDash(strings.Join(w.Silent, ", "))}
	})
	for _, w := range report.Worlds {
		if w.Aborted > 0 || len(w.Silent) > 0 {
			err = errors.Join(err, cli.WithCode(cli.ExitPartial, fmt.Errorf("world %s did not stop cleanly", w.World)))
		}
	}
	if len(missing) > 0 {
		err = errors.Join(err, cli.WithCode(cli.ExitNotFound, errors.Join(missing...)))
	}
	return err
}
