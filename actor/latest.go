package actor

import (
	"sync"

	"github.com/castnet-io/castnet/subjects"
)

// maxLater bounds how many ranks with a later generation are remembered of one mesh, and of how many
// meshes: those that were heard of first are forgotten, and who sends there hears that the proc is gone.
const (
	maxLater       = 1 << 16
	maxLaterMeshes = 1 << 10
)

// incarnations is who has the ranks of meshes now, where it is not the first proc that did.
type incarnations struct {
	mu    sync.RWMutex // guards the fields below
	later map[subjects.MeshID]*mesh
	order []subjects.MeshID // of later, oldest first
}

// mesh is what is known of the procs of one mesh.
type mesh struct {
	changes uint64
	now     map[uint32]Event // by rank: the event that told of the newest generation
}

// Learn takes the word that a proc runs. One of a later generation than those before has their rank from
// now on (ACT-11); any other changes nothing.
func (p *Proc) Learn(e Event) {
	p = p.process.first
	id := e.Proc()
	if !id.IsValid() || id.Gen == 0 {
		return
	}
	e.StderrTail = nil
	p.later.learn(id, e)
}

func (i *incarnations) learn(id subjects.ProcID, e Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.meshLocked(id.Mesh)
	before, known := m.now[id.Rank]
	switch {
	case !known && len(m.now) >= maxLater, known && before.Gen > e.Gen:
		return
	case known && before.Gen == e.Gen && (before.Host != "" || e.Host == ""): // its host says where, others may not
		return
	}
	m.now[id.Rank] = e
	m.changes++
}

func (i *incarnations) meshLocked(id subjects.MeshID) *mesh {
	m := i.later[id]
	if m != nil {
		return m
	}
	if len(i.order) >= maxLaterMeshes {
		delete(i.later, i.order[0])
		i.order = append(i.order[:0], i.order[1:]...)
	}
	if i.later == nil {
		i.later = map[subjects.MeshID]*mesh{}
	}
	m = &mesh{now: map[uint32]Event{}}
	i.later[id] = m
	i.order = append(i.order, id)
	return m
}

// Latest is the proc that has the rank of id now, as far as this process has heard: id itself, or one of a
// later generation. Any goroutine may ask.
func (p *Proc) Latest(id subjects.ProcID) subjects.ProcID {
	if e, ok := p.Successor(id); ok {
		return e.Proc()
	}
	return id
}

// Successor is the event that told of the newest proc of id's rank, when that is of a later generation.
func (p *Proc) Successor(id subjects.ProcID) (Event, bool) {
	i := &p.process.first.later
	i.mu.RLock()
	defer i.mu.RUnlock()
	m := i.later[id.Mesh]
	if m == nil {
		return Event{}, false
	}
	e, ok := m.now[id.Rank]
	return e, ok && e.Gen > int(id.Gen)
}

// Successors are the events that told of the newest proc of each rank of a mesh which a later generation has.
func (p *Proc) Successors(id subjects.MeshID) (all []Event) {
	i := &p.process.first.later
	i.mu.RLock()
	defer i.mu.RUnlock()
	if m := i.later[id]; m != nil {
		for _, e := range m.now {
			all = append(all, e)
		}
	}
	return all
}

// Changes counts what this process has heard of the ranks of a mesh: who compares it with an earlier
// count knows whether Latest and Downs may answer otherwise now.
func (p *Proc) Changes(id subjects.MeshID) uint64 {
	i := &p.process.first.later
	i.mu.RLock()
	defer i.mu.RUnlock()
	if m := i.later[id]; m != nil {
		return m.changes
	}
	return 0
}

// changed counts an end.
func (i *incarnations) changed(id subjects.MeshID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.meshLocked(id).changes++
}
