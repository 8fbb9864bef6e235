package page

import (
	"context"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

// maxRows bounds the rows of hosts, of meshes and of worlds (PAGE-3).
const maxRows = 200

// rows are the first rows of a table, those in trouble before the others.
type rows[T any] struct {
	Shown   []T `json:"shown"`
	Count   int `json:"count"`   // with those that are left out
	Trouble int `json:"trouble"` // among all
}

// firstRows keeps at most maxRows rows.
func firstRows[T any](all []T, isWell func(T) bool) rows[T] {
	out := rows[T]{Shown: []T{}, Count: len(all)}
	for _, well := range []bool{false, true} {
		for _, row := range all {
			if isWell(row) != well {
				continue
			}
			if !well {
				out.Trouble++
			}
			if len(out.Shown) < maxRows {
				out.Shown = append(out.Shown, row)
			}
		}
	}
	return out
}

// firstMeshes asks for the first live meshes of an Inventory. It asks no owner of another one.
func firstMeshes(ctx context.Context, conn *mesh.Net, inv mesh.Inventory) (rows[inspect.MeshSummary], error) {
	var live []mesh.MeshState
	for _, m := range inv.Meshes {
		if m.Alive() {
			live = append(live, m)
		}
	}
	first := firstRows(live, runsWholly)
	inv.Meshes = first.Shown
	shown, err := inspect.MeshesOf(ctx, conn, inv, false)
	return rows[inspect.MeshSummary]{Shown: shown, Count: first.Count, Trouble: first.Trouble}, err
}

// runsWholly reports whether all ranks of a mesh run.
func runsWholly(m mesh.MeshState) bool {
	running := 0
	for _, s := range m.States {
		if s.Status.Phase == agent.Running {
			running++
		}
	}
	return running == m.Procs.Extent().NumRanks()
}
