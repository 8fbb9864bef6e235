package heldmesh

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// heldMesh is a mesh started and owned by `up`.
type heldMesh struct {
	*app.App
	spec   Spec
	net    *mesh.Net
	hosts  []agent.HostInfo
	procs  mesh.ProcMesh
	actors mesh.ActorMesh[any] // zero without actors

	handover mesh.DetachedMesh // if detached
}

// heldEvent is an event of the mesh, or the end of the stream with its reason.
type heldEvent struct {
	event actor.Event
	err   error
}

// attach prints events until ctx ends or every proc has ended. An end by Ctrl-C or `castnet stop`
// is no error.
func (h *heldMesh) attach(ctx context.Context, node *localHostd) error {
	interrupted := ctx.Done()
	ctx, cancel := context.WithCancel(ctx)
	happenings := make(chan heldEvent)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	watchers.Go(func() { forwardEvents(ctx, h.procs.Watch(ctx), actor.KindProc, happenings) })
	if h.spec.Actor != "" {
		watchers.Go(func() { forwardEvents(ctx, h.actors.Watch(ctx), actor.KindActor, happenings) })
	}
	ended := map[int]bool{} // ranks of the present mesh, by whether they failed
	for !h.isOver(ended) {
		select {
		case e := <-happenings:
			if e.err != nil {
				return e.err
			}
			if err := h.printEvent(e.event); err != nil {
				return err
			}
			if e.event.Kind == actor.KindProc {
				ended[e.event.Rank] = e.event.Status == agent.Failed.String()
			}
		case <-interrupted:
			h.Notef("stopping %s …", h.procs.ID())
			return nil
		case <-node.exited():
			return fmt.Errorf("the hostd that was started for %s has ended: %s", h.spec.name, node.lastOutput())
		case <-h.net.Bus().Done():
			return h.net.Bus().Err()
		}
	}
	failed := 0
	for _, bad := range ended {
		if bad {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("mesh %s has ended: %d of %s failed", h.spec.name, failed,
			text.Pluralize(len(ended), "proc"))
	}
	h.Notef("mesh %s was stopped", h.spec.name)
	return nil
}

// isOver reports whether every rank of the mesh has ended. It forgets ranks that a Shrink removed.
func (h *heldMesh) isOver(ended map[int]bool) bool {
	ranks := h.procs.Extent().NumRanks()
	maps.DeleteFunc(ended, func(rank int, _ bool) bool { return rank >= ranks })
	return len(ended) == ranks
}

// forwardEvents forwards the events of one kind. (An actor mesh also has events of its procs.)
func forwardEvents(
	ctx context.Context, events iter.Seq2[actor.Event, error], kind string, to chan<- heldEvent,
) {
	for e, err := range events {
		if err == nil && e.Kind != kind {
			continue
		}
		select {
		case to <- heldEvent{e, err}:
		case <-ctx.Done():
			return
		}
	}
}

// printEvent prints one event. It omits the ends of actors that ended with their proc, whose event
// has the exit status.
func (h *heldMesh) printEvent(e actor.Event) error {
	if h.Format != output.Table {
		return h.WriteJSONLine(e)
	}
	if e.Kind == actor.KindActor && (e.Status != agent.Failed.String() || e.ExitCode != nil || e.Signal != 0) {
		return nil
	}
	what := e.Kind
	if e.Actor != "" {
		what += " " + text.Label(e.Actor)
	}
	reason := ""
	if e.Reason != "" {
		reason = ": " + e.Reason
	}
	_, err := fmt.Fprintf(h.Stdout, "%s %s %s %s on %s%s\n",
		h.Paint(output.Grey, e.At.Local().Format(time.TimeOnly)),
		h.Paint(output.Cyan, "["+inspect.Point(h.procs.Extent(), e.Rank)+"]"), what, h.PaintStatus(e.Status),
		text.HostLabel(h.hostOf(e)), reason)
	return err
}

// hostOf returns the host of an event.
func (h *heldMesh) hostOf(e actor.Event) string {
	if e.Host != "" {
		return e.Host
	}
	id, err := h.procs.Host(e.Rank)
	if err != nil {
		return ""
	}
	return id.String()
}
