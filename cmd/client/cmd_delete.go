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

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/cmd/client/internal/worldfile"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/system"
)

// deleteTimeoutMargin is the time of a delete beyond the worlds' stop time.
const deleteTimeoutMargin = 5 * time.Second

func deleteCommand(a *app.App) *cobra.Command {
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
		ValidArgsFunction: a.CompleteEach(candidates.Worlds),
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "`FILE` with worlds; may be repeated")
	c.Flags().StringVar(&reason, "reason", "", "`REASON` to record")
	flags.Add(
		c.Flags(), &timeout, "stop-timeout", "DURATION", "time limit (default: the system's own, 8s)",
		flags.PositiveDuration,
	)
	c.RunE = func(c *cobra.Command, names []string) error {
		if len(files) > 0 {
			specs, err := worldfile.Read(files)
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
		return a.WithNet(c.Context(), func(conn *mesh.Net) error { return deleteWorlds(c.Context(), a, conn, s) })
	}
	return c
}

// deleteWorlds waits for both replies.
func deleteWorlds(ctx context.Context, a *app.App, conn *mesh.Net, s system.StopRequest) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.Timeout, a.Conn.Timeout)+deleteTimeoutMargin)
	defer cancel()
	ref, err := target.FindSystem(ctx, conn)
	if err != nil {
		return err
	}
	port := actor.OpenPort[system.StopReport](conn.Proc())
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
	err = showDeleted(a.Printer, report.Worlds)
	for _, w := range report.Worlds {
		if w.Aborted > 0 || len(w.Silent) > 0 {
			unclean := strings.Join(slices.Concat(w.Killed, w.Silent), "; ")
			failure := fmt.Errorf("world %s did not stop cleanly: %s", w.World, unclean)
			err = errors.Join(err, cli.WithCode(cli.ExitPartial, failure))
		}
	}
	if len(missing) > 0 {
		err = errors.Join(err, cli.WithCode(cli.ExitNotFound, errors.Join(missing...)))
	}
	return err
}

func showDeleted(out *output.Printer, worlds []system.WorldStopped) error {
	return output.Records(out, worlds, []string{"world", "stopped", "aborted", "silent"},
		func(w system.WorldStopped) []string {
			return []string{
				w.World, strconv.Itoa(w.Stopped), strconv.Itoa(w.Aborted), text.OrDash(strings.Join(w.Silent, ", ")),
			}
		})
}
