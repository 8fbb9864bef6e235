package inspect

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// Failures returns the failures that the system controller and the owners of meshes remember, the
// earliest first. It skips those without an answer.
func Failures(ctx context.Context, conn *mesh.Net) ([]actor.Event, error) {
	meshes, err := conn.Meshes(ctx)
	if err != nil {
		return nil, err
	}
	return failuresIn(ctx, conn, meshes), ctx.Err()
}

// failuresIn returns the failures that the owners of some meshes and the system controller
// remember.
func failuresIn(ctx context.Context, conn *mesh.Net, meshes []mesh.MeshState) []actor.Event {
	owners := make([]subjects.ActorID, len(meshes))
	for i, m := range meshes {
		owners[i] = m.Procs.Describe().Owner
	}
	return rememberedFailures(ctx, conn, owners)
}

// FailuresOf is Failures of one mesh. It asks no hosts.
func FailuresOf(ctx context.Context, conn *mesh.Net, p mesh.ProcMesh) []actor.Event {
	past := rememberedFailures(ctx, conn, []subjects.ActorID{p.Describe().Owner})
	return slices.DeleteFunc(past, func(e actor.Event) bool { return e.Mesh != p.ID().String() })
}

// rememberedFailures asks owners and the system controller, all at once.
func rememberedFailures(ctx context.Context, conn *mesh.Net, owners []subjects.ActorID) []actor.Event {
	within, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	reports := make([]controller.Report, len(owners))
	var kept []actor.Event
	var asking sync.WaitGroup
	asking.Go(func() {
		if ref, err := system.Find(within, conn.Proc()); err == nil {
			kept, _ = system.Failures.Call(within, ref, actor.None{})
		}
	})
	askEach(owners, func(i int, owner subjects.ActorID) {
		reports[i], _ = controller.Health.Call(within, agentRef(conn, owner), actor.None{})
	})
	asking.Wait()
	past := []actor.Event{}
	for _, r := range reports {
		past = append(past, r.Failed...)
	}
	past = append(past, withoutKnown(kept, past)...)
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
