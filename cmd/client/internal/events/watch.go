package events

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/subjects"
)

// Filter selects events.
type Filter struct {
	Kind string // "": all
	Mesh string // a label or an ID; "": all
}

func (p Filter) matches(e actor.Event) bool {
	return (p.Kind == "" || p.Kind == e.Kind) &&
		(p.Mesh == "" || p.Mesh == e.Mesh || p.Mesh == text.Label(e.Mesh) || p.Mesh == e.Name)
}

const (
	// eventBuffer bounds the events that wait for output. Further events are dropped and counted.
	eventBuffer = 8192
)

// Watch receives new events.
type Watch struct {
	Events chan actor.Event
	Lost   atomic.Int64
	subs   []*bus.Sub
}

func Subscribe(conn *mesh.Net, pick Filter) (*Watch, error) {
	w := &Watch{Events: make(chan actor.Event, eventBuffer)}
	space := conn.Proc().Space()
	filters := []string{space.Events(pick.Kind, subjects.MeshID{})}
	if pick.Kind == "" || pick.Kind == actor.KindProc {
		filters = append(filters, space.HostEvents(subjects.MeshID{}))
	}
	for _, filter := range filters {
		sub, err := conn.Bus().Control().Subscribe(filter, func(m bus.Msg) {
			e, err := actor.DecodeEventFrom(space, m)
			if err == nil && pick.matches(e) && !repeatsReport(e) {
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

// PastFailures returns the failures that the owners of meshes remember.
func PastFailures(ctx context.Context, conn *mesh.Net, pick Filter) ([]actor.Event, error) {
	all, err := inspect.Failures(ctx, conn)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e actor.Event) bool { return !pick.matches(e) }), nil
}
