package main

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
)

// holding is a mesh that `up` has started and holds.
type holding struct {
	*app
	spec   upSpec
	net    *mesh.Net
	hosts  []agent.HostInfo
	procs  mesh.ProcMesh
	actors mesh.ActorMesh[any] // the zero mesh when there is none

	handover mesh.Handover // when it is detached
}

// happening is one event of the mesh, or the reason why no more are heard.
type happening struct {
	event actor.Event
	err   error
}

// hold shows what happens until ctx ends, or every proc has ended. An end that was asked for, by
// Ctrl-C or `client stop`, is no error.
func (h *holding) hold(ctx context.Context, node *localNode) error {
	interrupted := ctx.Done()
	ctx, cancel := context.WithCancel(ctx)
	happenings := make(chan happening)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	watchers.Go(func() { forward(ctx, h.procs.Watch(ctx), actor.KindProc, happenings) })
	if h.spec.actor != "" {
		watchers.Go(func() { forward(ctx, h.actors.Watch(ctx), actor.KindActor, happenings) })
	}
	var gone, failed int
	for ranks := h.procs.Extent().NumRanks(); gone < ranks; {
		select {
		case e := <-happenings:
			if e.err != nil {
				return e.err
			}
			if err := h.tell(e.event); err != nil {
				return err
			}
			if e.event.Kind == actor.KindProc {
				gone++
				if e.event.Status == agent.Failed.String() {
					failed++
				}
			}
		case <-interrupted:
			h.note("stopping %s …", h.procs.ID())
			return nil
		case <-node.ended():
			return fmt.Errorf("the hostd that was started for %s has ended: %s", h.spec.name, node.lastWords())
		case <-h.net.Bus().Done():
			return h.net.Bus().Err()
		}
	}
	if failed > 0 {
		return fmt.Errorf("mesh %s has ended: %d of %s failed", h.spec.name, failed, count(gone, "proc"))
	}
	h.note("mesh %s was stopped", h.spec.name)
	return nil
}

// forward passes on the events of a kind. (An actor mesh hears of its procs, too.)
func forward(ctx context.Context, events iter.Seq2[actor.Event, error], kind string, to chan<- happening) {
	for e, err := range events {
		if err == nil && e.Kind != kind {
			continue
		}
		select {
		case to <- happening{e, err}:
		case <-ctx.Done():
			return
		}
	}
}

// tell shows one event. That the actors of a proc end with it goes without saying: such an event is
// that of the proc, and has its exit.
func (h *holding) tell(e actor.Event) error {
	if h.output != asTable {
		return h.line(e)
	}
	if e.Kind == actor.KindActor && (e.Status != agent.Failed.String() || e.ExitCode != nil || e.Signal != 0) {
		return nil
	}
	what := e.Kind
	if e.Actor != "" {
		what += " " + labelOf(e.Actor)
	}
	reason := ""
	if e.Reason != "" {
		reason = ": " + e.Reason
	}
	_, err := fmt.Fprintf(h.out, "%s %s %s %s on %s%s\n", h.paint(grey, e.At.Local().Format(time.TimeOnly)),
		h.paint(cyan, "["+pointOf(h.procs.Extent(), e.Rank)+"]"), what, h.status(e.Status), hostLabel(h.hostOf(e)), reason)
	return err
}

// hostOf is the host an event speaks of.
func (h *holding) hostOf(e actor.Event) string {
	if e.Host != "" {
		return e.Host
	}
	id, err := h.procs.Host(e.Rank)
	if err != nil {
		return ""
	}
	return id.String()
}
