package inspect

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/system"
)

// Failures returns the failures that the system controller and the owners of meshes remember, the
// earliest first. It skips those without an answer.
func Failures(ctx context.Context, conn *mesh.Net) ([]actor.Event, error) {
	meshes, err := conn.Meshes(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	reports := make([]controller.Report, len(meshes))
	var kept []actor.Event
	var asking sync.WaitGroup
	asking.Go(func() {
		if ref, err := system.Find(within, conn.Proc()); err == nil {
			kept, _ = system.Failures.Call(within, ref, actor.None{})
		}
	})
	askEach(meshes, func(i int, m mesh.MeshState) {
		owner := agentRef(conn, m.Procs.Describe().Owner)
		reports[i], _ = controller.Health.Call(within, owner, actor.None{})
	})
	asking.Wait()
	past := []actor.Event{}
	for _, r := range reports {
		past = append(past, r.Failed...)
	}
	past = append(past, withoutKnown(kept, past)...)
	slices.SortStableFunc(past, func(a, b actor.Event) int { return a.At.Compare(b.At) })
	return past, ctx.Err()
}

// FailuresOf returns the failures of a mesh that its owner and the system controller remember, the
// earliest first. It skips those without an answer.
func FailuresOf(ctx context.Context, conn *mesh.Net, p mesh.ProcMesh) []actor.Event {
	within, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var report controller.Report
	var kept []actor.Event
	var asking sync.WaitGroup
	asking.Go(func() {
		if ref, err := system.Find(within, conn.Proc()); err == nil {
			kept, _ = system.Failures.Call(within, ref, actor.None{})
		}
	})
	report, _ = controller.Health.Call(within, agentRef(conn, p.Describe().Owner), actor.None{})
	asking.Wait()
	kept = slices.DeleteFunc(kept, func(e actor.Event) bool { return e.Mesh != p.ID().String() })
	past := append(slices.Clone(report.Failed), withoutKnown(kept, report.Failed)...)
	slices.SortStableFunc(past, func(a, b actor.Event) int { return a.At.Compare(b.At) })
	return past
}

// withoutKnown drops the ends that owners report: they know more.
func withoutKnown(events, known []actor.Event) []actor.Event {
	seen := map[string]bool{}
	key := func(e actor.Event) string { return fmt.Sprint(e.Mesh, e.Rank, e.Gen, e.Actor, e.Nth) }
	for _, e := range known {
		e.Each(func(e actor.Event) { seen[key(e)] = true })
	}
	return slices.DeleteFunc(events, func(e actor.Event) bool {
		all := e.Failed()
		e.Each(func(e actor.Event) { all = all && seen[key(e)] })
		return all
	})
}
