package inspect

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// EventFilter selects events.
type EventFilter struct {
	Kind  string    // "": all
	Mesh  string    // a label or an ID; "": all
	Since time.Time // zero: all
}

// Matches reports whether the filter selects an event.
func (p EventFilter) Matches(e actor.Event) bool {
	return (p.Kind == "" || p.Kind == e.Kind) &&
		(p.Mesh == "" || p.Mesh == e.Mesh || p.Mesh == text.Label(e.Mesh) || p.Mesh == e.Name) &&
		!e.At.Before(p.Since)
}

// eventBuffer bounds the events that wait for their reader. Further ones are dropped and counted.
const eventBuffer = 8192

// EventWatch receives new events.
type EventWatch struct {
	Events chan actor.Event
	Lost   atomic.Int64
	subs   []*bus.Sub
}

// WatchEvents receives the events of a castnet from now on, until Close.
func WatchEvents(conn *mesh.Net, pick EventFilter) (*EventWatch, error) {
	w := &EventWatch{Events: make(chan actor.Event, eventBuffer)}
	space := conn.Proc().Space()
	filters := []string{space.Events(pick.Kind, subjects.MeshID{})}
	if pick.Kind == "" || pick.Kind == actor.KindProc {
		filters = append(filters, space.HostEvents(subjects.MeshID{}))
	}
	for _, filter := range filters {
		sub, err := conn.Bus().Control().Subscribe(filter, func(m bus.Msg) {
			e, err := actor.DecodeEventFrom(space, m)
			if err == nil && pick.Matches(e) && !repeatsReport(e) {
				w.enqueue(e)
			}
		})
		if err != nil {
			w.Close()
			return nil, err
		}
		w.subs = append(w.subs, sub)
	}
	return w, nil
}

// repeatsReport reports whether an owner confirms the end of a rank that a host or a proc reported.
func repeatsReport(e actor.Event) bool {
	return e.Kind == actor.KindRank && e.Step != agent.StepFenced && !strings.HasPrefix(e.Step, "rank.")
}

// PastFailures returns those of Failures that match.
func PastFailures(ctx context.Context, conn *mesh.Net, pick EventFilter) ([]actor.Event, error) {
	all, err := Failures(ctx, conn)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e actor.Event) bool { return !pick.Matches(e) }), nil
}

// PastFailuresOf is PastFailures with an Inventory that is known already.
func PastFailuresOf(ctx context.Context, conn *mesh.Net, inv mesh.Inventory, pick EventFilter) []actor.Event {
	meshes := slices.DeleteFunc(slices.Clone(inv.Meshes), func(m mesh.MeshState) bool {
		id := m.Procs.ID()
		return pick.Mesh != "" && pick.Mesh != id.String() && pick.Mesh != id.Label()
	})
	return slices.DeleteFunc(failuresIn(ctx, conn, meshes), func(e actor.Event) bool { return !pick.Matches(e) })
}

func (w *EventWatch) enqueue(e actor.Event) {
	select {
	case w.Events <- e:
	default: // the pump must not wait for a reader
		w.Lost.Add(1)
	}
}

// WatchHosts adds state changes of hosts, which the bus does not carry, until the returned function
// is called.
func (w *EventWatch) WatchHosts(ctx context.Context, hosts mesh.HostMesh, pick EventFilter) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for e, err := range hosts.Changes(ctx) {
			if err != nil {
				e = actor.Event{Kind: actor.KindHost, Status: "unknown", Reason: err.Error(), At: time.Now()}
			}
			// The mesh of hosts is private.
			e.Name = ""
			e.Rank = 0
			e.View = 0
			e.Point = ""
			if pick.Matches(e) && e.Step != "host.mode" { // hosts publish that themselves
				w.enqueue(e)
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// Close ends the watch.
func (w *EventWatch) Close() {
	for _, sub := range w.subs {
		_ = sub.Unsubscribe() // the connection closes anyway
	}
}
