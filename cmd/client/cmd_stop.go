package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/system"
)

// lateEventsTimeout bounds the wait for events of ended ranks, which use another connection than
// the reply.
const lateEventsTimeout = time.Second

func stopCommand(a *app.App) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "stop MESH",
		Short: "Stop a mesh and wait until every rank has ended",
		Long: `Stop every proc of a mesh: its actors handle their queued messages, procs get SIGTERM, and
SIGKILL after 10 s. The command waits for every rank and shows how each ended. More than two ranks
with the same end and reason share a row; JSON lists each.

JSON: mesh, rank, point, host, pid, status, reason, started, exit_code, signal.`,
		Example:           "  castnet stop demo\n  castnet stop demo --reason 'new data'",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.MeshesAndWorlds),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := target.Parse(args[0])
			if err != nil {
				return err
			}
			if t.Region != "" {
				return cli.Usagef("stop takes a whole mesh: want %s, got %s", t.Name, t)
			}
			return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
				return stopMesh(ctx, a, conn, t, reason)
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", defaultReason, "`REASON` to record")
	return c
}

// defaultReason is the reason of a stop without --reason.
const defaultReason = "stopped by its user"

func stopMesh(ctx context.Context, a *app.App, conn *mesh.Net, t target.Target, reason string) error {
	procs, err := conn.Lookup(ctx, t.Name)
	if w, _, bare := inspect.FindEmptyWorld(ctx, conn, t.Name, err); bare {
		return deleteWorlds(ctx, a, conn, system.StopRequest{Worlds: []string{w.Name}, Reason: reason})
	}
	if err != nil {
		return err
	}
	p, err := t.ResolveIn(procs)
	if err != nil {
		return err
	}
	records, err := listTarget(ctx, conn, p)
	if err != nil {
		return err
	}
	ends := make(chan actor.Event, 2*len(records)+1) // each rank ends once
	ranks := p.Procs.Extent().NumRanks()
	unlisten, err := conn.Proc().Members().ListenProcs(p.Procs.ID(), ranks, func(e actor.Event) {
		if e.Terminal() {
			e.Each(func(e actor.Event) { // one event may cover many ranks
				select {
				case ends <- e:
				default: // a repeated event
				}
			})
		}
	})
	if err != nil {
		return err
	}
	defer unlisten()
	done := make(chan error, 1)
	go func() { done <- p.Procs.StopWithReason(ctx, reason) }()
	err = awaitEnds(a.Printer, ends, done, records)
	if err == nil {
		markStopped(records)
	}
	return errors.Join(showRanks(a.Printer, records), err)
}

// awaitEnds collects ends until the mesh has stopped, and briefly afterwards.
func awaitEnds(
	out *output.Printer, ends <-chan actor.Event, done <-chan error, records []inspect.Proc,
) error {
	bar := out.NewProgress()
	defer bar.Clear()
	var late <-chan time.Time
	for {
		gone := countEnded(records)
		if late != nil && gone == len(records) {
			return nil
		}
		bar.Update(gone, len(records), "procs have ended")
		select {
		case e := <-ends:
			recordEnd(records, e)
		case err := <-done:
			if err != nil {
				return err
			}
			late = time.After(lateEventsTimeout)
		case <-late:
			return nil
		}
	}
}

func countEnded(records []inspect.Proc) (n int) {
	for _, r := range records {
		if inspect.Ended(r.Status) {
			n++
		}
	}
	return n
}

// recordEnd records the end of a rank.
func recordEnd(records []inspect.Proc, e actor.Event) {
	for i := range records {
		if r := &records[i]; r.Rank == e.Rank {
			r.Status = e.Status
			r.Reason = e.Reason
			r.ExitCode = e.ExitCode
			r.Signal = e.Signal
		}
	}
}

// markStopped marks ranks whose end is known but whose event was lost.
func markStopped(records []inspect.Proc) {
	for i := range records {
		if !inspect.Ended(records[i].Status) {
			records[i].Status = agent.Stopped.String()
		}
	}
}
