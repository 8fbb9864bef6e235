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
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

// lastEvents is how long to wait for the events of ranks that are known to have ended: they come on
// another connection than the answer.
const lastEvents = time.Second

func (a *app) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop MESH",
		Short: "Stop a mesh and wait until every rank has ended",
		Long: `Stop every proc of a mesh: its actors handle the mail they have, procs get SIGTERM, and
SIGKILL after 10 s. Returns once every rank has ended, and says how.

JSON: mesh, rank, point, host, pid, status, reason, started, exit_code, signal.`,
		Example:           "  client stop demo",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: a.complete(meshNames),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := parseTarget(args[0])
			if err != nil {
				return err
			}
			if t.region != "" {
				return cli.Usagef("stop ends whole meshes: want %s, got %s", t.name, t)
			}
			return a.dial(c.Context(), func(ctx context.Context, net *mesh.Net) error { return a.stop(ctx, net, t) })
		},
	}
}

func (a *app) stop(ctx context.Context, net *mesh.Net, t target) error {
	procs, err := net.Lookup(ctx, t.name)
	if w, _, bare := bareWorld(ctx, net, t.name, err); bare {
		return a.deleteWorlds(ctx, net, worlds.Stopping{Worlds: []string{w.Name}})
	}
	if err != nil {
		return err
	}
	p, err := t.in(procs)
	if err != nil {
		return err
	}
	records, err := ranks(ctx, net, p)
	if err != nil {
		return err
	}
	ends := make(chan actor.Event, 2*len(records)+1) // each rank ends once
	sub, err := net.Bus().Control().Subscribe(net.Proc().Space().Events(actor.KindProc, p.procs.ID()), func(m bus.Msg) {
		e, err := actor.OpenEvent(net.Proc().Space(), m)
		if e, in := e.Within(p.procs.Extent().NumRanks()); err == nil && in && e.Terminal() {
			e.Each(func(e actor.Event) { // one event may tell of many ranks
				select {
				case ends <- e:
				default: // somebody repeats what is known
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
		settleStopped(records)
	}
	return errors.Join(a.showStopped(records), err, sub.Unsubscribe())
}

// awaitEnds takes what ends until the mesh has stopped, and a moment longer for late events.
func (a *app) awaitEnds(ends <-chan actor.Event, done <-chan error, records []procRecord) error {
	bar := a.newProgress()
	defer bar.clear()
	var late <-chan time.Time
	for {
		gone := countEnded(records)
		if late != nil && gone == len(records) {
			return nil
		}
		bar.step(gone, len(records), "procs have ended")
		select {
		case e := <-ends:
			recordEnd(records, e)
		case err := <-done:
			if err != nil {
				return err
			}
			late = time.After(lastEvents)
		case <-late:
			return nil
		}
	}
}

func countEnded(records []procRecord) (n int) {
	for _, r := range records {
		if ended(r.Status) {
			n++
		}
	}
	return n
}

// recordEnd puts the end of a rank into its record.
func recordEnd(records []procRecord, e actor.Event) {
	for i := range records {
		if r := &records[i]; r.Rank == e.Rank {
			r.Status, r.Reason, r.ExitCode, r.Signal = e.Status, e.Reason, e.ExitCode, e.Signal
		}
	}
}

// settleStopped is for ranks whose event was lost: that they have ended is known.
func settleStopped(records []procRecord) {
	for i := range records {
		if !ended(records[i].Status) {
			records[i].Status = agent.Stopped.String()
		}
	}
}

func (a *app) showStopped(records []procRecord) error {
	columns := []string{"mesh", "rank", "point", "host", "pid", "status", "exit", "reason"}
	return show(a, records, columns, func(r procRecord) []string {
		return []string{
			r.Mesh, strconv.Itoa(r.Rank), r.Point, hostLabel(r.Host), orDash(pidText(r.PID)), a.status(r.Status),
			orDash(r.exit()), orDash(shorten(r.Reason, 60)),
		}
	})
}

// exit is how the process of a rank ended.
func (r procRecord) exit() string {
	switch {
	case r.Signal != 0:
		return "signal " + strconv.Itoa(r.Signal)
	case r.ExitCode != nil:
		return strconv.Itoa(*r.ExitCode)
	}
	return ""
}
