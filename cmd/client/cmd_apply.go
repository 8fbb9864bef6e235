package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/cmd/client/internal/worldfile"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/system"
)

func applyCommand(a *app.App, dry bool) *cobra.Command {
	var files []string
	var wait bool
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Declare worlds",
		Long: `Declare the worlds of a file, one per YAML document. All are checked first: if one is refused,
none is declared. Only the labels of an existing world can change. With --wait the command ends once
all are live, at the latest after --timeout (exit code 5).

  name: train
  shape: { replica: 2, gpu: 4 }      # or replica=2,gpu=4
  per-host: 4                        # host rank 0 has ranks 0 to 3, host rank 1 the others
  command:                           # or only its path; builtin is hostd's own actors
    path: builtin                  # or an absolute path on the hosts, and args: [--verbose]
    env: { DATA: /data }
  labels: { team: vision }
  limits: { memory: 8589934592, cpu: 2 }
  keep: false                        # procs outlive a hostd that has a --state-dir

JSON: world, mesh, status, change (create, labels or nothing).`,
		Example: "  castnet apply -f world.yaml --wait\n  castnet apply -f - < world.yaml",
		Args:    flags.WantArgs(0, 0),
	}
	if dry {
		c.Use = "plan -f FILE"
		c.Short = "Show what apply would change"
		c.Example = "  castnet plan -f world.yaml"
		c.Long = "Show what apply would change, and change nothing.\n\nJSON: as apply."
	}
	c.Flags().StringArrayVarP(
		&files, "file", "f", nil, "`FILE` with worlds, - for standard input; may be repeated",
	)
	if !dry {
		c.Flags().BoolVar(&wait, "wait", false, "wait until the worlds are live")
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		specs, err := worldfile.Read(files)
		if err != nil {
			return err
		}
		return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
			return applyWorlds(ctx, a.Printer, conn, specs, dry, wait)
		})
	}
	return c
}

// applyWorlds validates and declares worlds, and waits until they are live.
func applyWorlds(
	ctx context.Context, out *output.Printer, conn *mesh.Net, specs []system.Spec, dry, wait bool,
) error {
	ref, err := target.FindSystem(ctx, conn)
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
	if wait {
		err = awaitLive(ctx, conn, ref, done)
	}
	return errors.Join(err, showApplied(out, done))
}

// livePollInterval is the pause between two looks at the status of worlds.
const livePollInterval = 200 * time.Millisecond

// awaitLive waits until worlds are live, and updates their status. If the term of the system
// controller ends, it asks the next one. When time is up, the error has the status last known.
func awaitLive(
	ctx context.Context, conn *mesh.Net, ref actor.Ref[*system.Controller], done []system.UpsertResponse,
) error {
	var names, late []string
	for _, u := range done {
		names = append(names, u.World)
		late = append(late, fmt.Sprintf("%s is %s", u.World, u.Status))
	}
	for {
		now, err := system.GetSnapshot.Call(ctx, ref, system.Filter{Worlds: names})
		switch {
		case err == nil:
			if late = updateStatus(done, now.Worlds); len(late) == 0 {
				return nil
			}
		case actor.IsGone(err):
			if next, err := system.Find(ctx, conn.Proc()); err == nil {
				ref = next
			}
		case ctx.Err() == nil && !errors.Is(err, actor.ErrExpired): // which may come just before the end
			return err
		}
		select {
		case <-time.After(livePollInterval):
		case <-ctx.Done():
			err := fmt.Errorf("not all worlds are live: %s", strings.Join(late, "; "))
			return cli.WithCode(cli.ExitTimeout, err)
		}
	}
}

// updateStatus updates the status of worlds, and lists those that are not live.
func updateStatus(done []system.UpsertResponse, now []system.WorldState) (late []string) {
	states := map[string]system.WorldState{}
	for _, w := range now {
		states[w.Name] = w
	}
	for i, u := range done {
		w, is := states[u.World]
		if !is {
			late = append(late, u.World+" is deleted")
		} else if w.Status != system.StatusLive {
			late = append(late, fmt.Sprintf("%s is %s: %s", w.Name, w.Status, w.Reason))
		}
		done[i].Status = w.Status
	}
	return late
}

// upsertAll declares worlds concurrently, with one shared query of the hosts.
func upsertAll(
	ctx context.Context, ref actor.Ref[*system.Controller], specs []system.Spec, dry bool,
) (done []system.UpsertResponse, err error) {
	all, errs := make([]system.UpsertResponse, len(specs)), make([]error, len(specs))
	var wg sync.WaitGroup
	for i, s := range specs {
		wg.Go(func() { all[i], errs[i] = system.Upsert.Call(ctx, ref, system.UpsertRequest{Spec: s, DryRun: dry}) })
	}
	wg.Wait()
	for i, u := range all {
		if errs[i] == nil {
			done = append(done, u)
		}
	}
	return done, errors.Join(errs...)
}

func showApplied(out *output.Printer, done []system.UpsertResponse) error {
	columns := []string{"world", "change", "status", "mesh"}
	return output.Records(out, done, columns, func(u system.UpsertResponse) []string {
		return []string{u.World, string(u.Change), text.OrDash(string(u.Status)), text.OrDash(u.Mesh)}
	})
}
