package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/system"
)

// lateEventsTimeout bounds the wait for events of ended ranks, which use another connection than
// the reply.
const lateEventsTimeout = time.Second

func (a *app) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop MESH",
		Short: "Stop a mesh and wait until every rank has ended",
		Long: `Stop every proc of a mesh: its actors handle their queued messages, procs get SIGTERM, and
SIGKILL after 10 s. The command waits for every rank and shows how each ended.

JSON: mesh, rank, point, host, pid, status, reason, started, exit_code, signal.`,
		Example:           "  castnet stop demo",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: a.complete(meshNames),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := parseTarget(args[0])
			if err != nil {
				return err
			}
			if t.region != "" {
				return cli.Usagef("stop takes a whole mesh: want %s, got %s", t.name, t)
			}
			return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error { return a.stop(ctx, net, t) })
		},
	}
}

func (a *app) stop(ctx context.Context, net *mesh.Net, t target) error {
	procs, err := net.Lookup(ctx, t.name)
	if w, _, bare := findEmptyWorld(ctx, net, t.name, err); bare {
		return a.deleteWorlds(ctx, net, system.StopRequest{Worlds: []string{w.Name}})
	}
	if err != nil {
		return err
	}
	p, err := t.resolveIn(procs)
	if err != nil {
		return err
	}
	records, err := listTarget(ctx, net, p)
	if err != nil {
		return err
	}
	ends := make(chan actor.Event, 2*len(records)+1) // each rank ends once
	sub, err := net.Bus().Control().Subscribe(net.Proc().Space().Events(actor.KindProc, p.procs.ID()), func(m bus.Msg) {
		e, err := actor.DecodeEventFrom(net.Proc().Space(), m)
		if e, in := e.ClampRanks(p.procs.Extent().NumRanks()); err == nil && in && e.Terminal() {
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
	done := make(chan error, 1)
	go func() { done <- p.procs.Stop(ctx) }()
	err = a.awaitEnds(ends, done, records)
	if err == nil {
		markStopped(records)
	}
	return errors.Join(a.showStopped(records), err, sub.Unsubscribe())
}

// awaitEnds collects ends until the mesh has stopped, and briefly afterwards.
func (a *app) awaitEnds(ends <-chan actor.Event, done <-chan error, records []procRecord) error {
	bar := a.newProgress()
	defer bar.clear()
	var late <-chan time.Time
	for {
		gone := countEnded(records)
		if late != nil && gone == len(records) {
			return nil
		}
		bar.update(gone, len(records), "procs have ended")
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

func countEnded(records []procRecord) (n int) {
	for _, r := range records {
		if hasEnded(r.Status) {
			n++
		}
	}
	return n
}

// recordEnd records the end of a rank.
func recordEnd(records []procRecord, e actor.Event) {
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
func markStopped(records []procRecord) {
	for i := range records {
		if !hasEnded(records[i].Status) {
			records[i].Status = agent.Stopped.String()
		}
	}
}

func (a *app) showStopped(records []procRecord) error {
	columns := []string{"mesh", "rank", "point", "host", "pid", "status", "exit", "reason"}
	return showRecords(a, records, columns, func(r procRecord) []string {
		return []string{
			r.Mesh, strconv.Itoa(r.Rank), r.Point, hostLabel(r.Host), orDash(formatPID(r.PID)), a.paintStatus(r.Status),
			orDash(r.exitText()), orDash(shorten(r.Reason, 60)),
		}
	})
}

// exitText formats the exit of a rank's process.
func (r procRecord) exitText() string {
	if r.Signal != 0 {
		return "signal " + strconv.Itoa(r.Signal)
	}
	if r.ExitCode != nil {
		return strconv.Itoa(*r.ExitCode)
	}
	return ""
}
