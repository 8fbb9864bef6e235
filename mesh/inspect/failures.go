package inspect

import (
	"context"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/mesh"
)

// Failures returns the failures that the owners of meshes remember, the earliest first. It skips
// owners without an answer.
func Failures(ctx context.Context, conn *mesh.Net) ([]actor.Event, error) {
	meshes, err := conn.Meshes(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	reports := make([]controller.Report, len(meshes))
	askEach(meshes, func(i int, m mesh.MeshState) {
		owner := agentRef(conn, m.Procs.Describe().Owner)
		reports[i], _ = controller.Health.Call(within, owner, actor.None{})
	})
	past := []actor.Event{}
	for _, r := range reports {
		past = append(past, r.Failed...)
	}
	slices.SortStableFunc(past, func(a, b actor.Event) int { return a.At.Compare(b.At) })
	return past, ctx.Err()
}
