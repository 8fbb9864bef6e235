package events

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cmd/client/internal/inspect"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// Filter selects events.
type Filter struct {
	Kind string // "": all
	Mesh string // a label or an ID; "": all
}

func (p Filter) matches(e actor.Event) bool {
	return (p.Kind == "" || p.Kind == e.Kind) && (p.Mesh == "" || p.Mesh == e.Mesh || p.Mesh == text.Label(e.Mesh) || p.Mesh == e.Name)
}

const (
	// eventBuffer bounds the events that wait for output. Further events are dropped and counted.
	eventBuffer = 8192
	// maxConcurrentMeshes bounds the owners asked at a time.
	maxConcurrentMeshes = 8
)

// Watch receives new events.
type Watch struct {
	Events chan actor.Event
	Lost   atomic.Int64
	sub    *bus.Sub
}

func Subscribe(net *mesh.Net, pick Filter) (*Watch, error) {
	w := &Watch{Events: make(chan actor.Event, eventBuffer)}
	space := net.Proc().Space()
	sub, err := net.Bus().Control().Subscribe(space.Events(pick.Kind, subjects.MeshID{}), func(m bus.Msg) {
		e, err := actor.DecodeEventFrom(space, m)
		if err != nil || !pick.matches(e) {
			return
		}
		w.enqueue(e)
	})
	w.sub = sub
	return w, err
}

// PastFailures asks the owners of meshes for past failures. It skips owners without an answer.
func PastFailures(ctx context.Context, net *mesh.Net, pick Filter) ([]actor.Event, error) {
	meshes, err := net.Meshes(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, inspect.InspectTimeout)
	defer cancel()
	reports := make([]controller.Report, len(meshes))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentMeshes)
	for i, m := range meshes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			owner := actor.RefOf[agent.Agent](m.Procs.Describe().Owner).Via(net.Proc())
			reports[i], _ = controller.Health.Call(within, owner, actor.None{})
		})
	}
	wg.Wait()
	past := []actor.Event{}
	for _, r := range reports {
		for _, e := range r.Failed {
			if pick.matches(e) {
				past = append(past, e)
			}
		}
	}
	slices.SortStableFunc(past, func(a, b actor.Event) int { return a.At.Compare(b.At) })
	return past, ctx.Err()
}
