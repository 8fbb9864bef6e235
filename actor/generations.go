package actor

import (
	"sync"

	"github.com/castnet-io/castnet/subjects"
)

// Bounds of the remembered generations: the ranks of one mesh with a later generation, and the
// meshes. The oldest are forgotten; senders to them learn that the proc is gone.
const (
	maxGenerations      = 1 << 16
	maxGenerationMeshes = 1 << 10
)

// generations holds the current procs of ranks whose first proc was replaced.
type generations struct {
	mu     sync.RWMutex // guards the fields below
	byMesh map[subjects.MeshID]*meshGenerations
	order  []subjects.MeshID // of later, oldest first
}

// meshGenerations holds the known generations of one mesh.
type meshGenerations struct {
	changes uint64
	newest  map[uint32]Event // by rank: the event of the newest generation
}

// NoteGeneration records a running proc. If its generation is the latest known one, the rank
// belongs to it from now on (ACT-11). Otherwise nothing changes.
func (p *Proc) NoteGeneration(e Event) {
	p = p.process.lead
	id := e.Proc()
	if !id.IsValid() || id.Gen == 0 {
		return
	}
	e.StderrTail = nil
	p.generations.note(id, e)
}

func (i *generations) note(id subjects.ProcID, e Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.meshLocked(id.Mesh)
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

func (i *generations) meshLocked(id subjects.MeshID) *meshGenerations {
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

// LatestGeneration returns the proc that has the rank of id now, as far as this process knows: id
// itself, or one of a later generation. It may be called on any goroutine.
func (p *Proc) LatestGeneration(id subjects.ProcID) subjects.ProcID {
	if e, ok := p.Successor(id); ok {
		return e.Proc()
	}
	return id
}

// Successor returns the event of the newest proc of id's rank, if its generation is later than
// id's.
func (p *Proc) Successor(id subjects.ProcID) (Event, bool) {
	i := &p.process.lead.generations
	i.mu.RLock()
	defer i.mu.RUnlock()
	m := i.byMesh[id.Mesh]
	if m == nil {
		return Event{}, false
	}
	e, ok := m.newest[id.Rank]
	return e, ok && e.Gen > int(id.Gen)
}

// isNewest reports whether no other proc is known to have the rank of id.
func (i *generations) isNewest(id subjects.ProcID) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if m := i.byMesh[id.Mesh]; m != nil {
		return m.newest[id.Rank].Gen == int(id.Gen) // 0: no later one is known
	}
	return id.Gen == 0
}

// Successors returns the events of all procs in a mesh that replaced the first one of their rank.
func (p *Proc) Successors(id subjects.MeshID) (all []Event) {
	i := &p.process.lead.generations
	i.mu.RLock()
	defer i.mu.RUnlock()
	if m := i.byMesh[id]; m != nil {
		for _, e := range m.newest {
			all = append(all, e)
		}
	}
	return all
}

// ChangeCount counts the known changes to the ranks of a mesh. If it is unchanged, LatestGeneration
// and DeadProcs return the same as before.
func (p *Proc) ChangeCount(id subjects.MeshID) uint64 {
	i := &p.process.lead.generations
	i.mu.RLock()
	defer i.mu.RUnlock()
	if m := i.byMesh[id]; m != nil {
		return m.changes
	}
	return 0
}

// countChange counts an end.
func (i *generations) countChange(id subjects.MeshID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.meshLocked(id).changes++
}
