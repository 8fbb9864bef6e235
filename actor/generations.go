package actor

import (
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// Bounds of the remembered generations: the ranks of one mesh with a later generation, and the
// meshes. The oldest are forgotten; senders to them learn that the proc is gone.
const (
	maxGenerations      = 1 << 16
	maxGenerationMeshes = 1 << 10
)

// generations holds the current procs of ranks whose first proc was replaced. The lock of Members
// guards it.
type generations struct {
	byMesh map[subjects.MeshID]*meshGenerations
	order  []subjects.MeshID // oldest first
}

// meshGenerations holds the known generations of one mesh.
type meshGenerations struct {
	changes  uint64
	revision int                // as the last event reported it
	owner    subjects.ProcessID // see NoteOwner; invalid: unknown
	newest   map[uint32]Event   // by rank: the event of the newest generation

	hosts         []subjects.HostID // of the first procs, perHost ranks each; see NoteHosts
	hostsRevision int
	perHost       int
}

// note records a running proc, if its generation is the latest known one of its rank.
func (i *generations) note(id subjects.ProcID, e Event) {
	m := i.mesh(id.Mesh)
	before, known := m.newest[id.Rank]
	if !known && len(m.newest) >= maxGenerations || known && before.Gen > e.Gen {
		return
	}
	// The event of its host names the host; others may not.
	if known && before.Gen == e.Gen && (before.Host != "" || e.Host == "") {
		return
	}
	m.newest[id.Rank] = e
	m.changes++
}

// mesh returns what is known of a mesh, in place of the oldest if it is new.
func (i *generations) mesh(id subjects.MeshID) *meshGenerations {
	m := i.byMesh[id]
	if m != nil {
		return m
	}
	if len(i.order) >= maxGenerationMeshes {
		delete(i.byMesh, i.order[0])
		i.order = append(i.order[:0], i.order[1:]...)
	}
	if i.byMesh == nil {
		i.byMesh = map[subjects.MeshID]*meshGenerations{}
	}
	m = &meshGenerations{newest: map[uint32]Event{}}
	i.byMesh[id] = m
	i.order = append(i.order, id)
	return m
}

// forget forgets a mesh.
func (i *generations) forget(id subjects.MeshID) {
	delete(i.byMesh, id)
	i.order = slices.DeleteFunc(i.order, func(m subjects.MeshID) bool { return m == id })
}

// successor returns the event of a later proc of id's rank.
func (i *generations) successor(id subjects.ProcID) (Event, bool) {
	m := i.byMesh[id.Mesh]
	if m == nil {
		return Event{}, false
	}
	e, ok := m.newest[id.Rank]
	return e, ok && e.Gen > int(id.Gen)
}

// isNewest reports whether no other proc is known to have the rank of id.
func (i *generations) isNewest(id subjects.ProcID) bool {
	if m := i.byMesh[id.Mesh]; m != nil {
		return m.newest[id.Rank].Gen == int(id.Gen) // 0: no later one is known
	}
	return id.Gen == 0
}
