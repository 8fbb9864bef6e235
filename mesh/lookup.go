package mesh

import (
	"context"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/subjects"
)

// MeshState is a proc mesh and what its hosts say of its ranks.
type MeshState struct {
	Procs  ProcMesh
	States []agent.State
}

// Lookup resolves a proc mesh, be it a program's or a world, by its ID or its label. Of several live meshes that share
// a label it is the one that has taken it: a world, a detached mesh, or one that was spawned with TakeName. When there
// is no such one, or there are several, the error lists them.
//
// Of a world that lacks hosts, casts reach the ranks that are there; the others are missing.
func (n *Net) Lookup(ctx context.Context, name string) (ProcMesh, error) {
	all, err := n.Meshes(ctx)
	if err != nil {
		return ProcMesh{}, err
	}
	return n.Among(all, name)
}

// Among is Lookup in what Meshes has returned.
func (n *Net) Among(all []MeshState, name string) (ProcMesh, error) {
	var found []MeshState
	var known, ids []string
	for _, m := range all {
		if !m.Alive() {
			continue
		}
		id := m.Procs.ID()
		known = append(known, id.String())
		if id.String() == name || id.Label() == name {
			found, ids = append(found, m), append(ids, id.String())
		}
	}
	if taken := slices.DeleteFunc(slices.Clone(found), func(m MeshState) bool { return !m.taken() }); len(taken) == 1 {
		found = taken
	}
	switch len(found) {
	case 1:
		found[0].tell(n.proc)
		found[0].Procs.acquainted()
		return found[0].Procs, nil
	case 0:
		return ProcMesh{}, &NotFoundError{What: "mesh", Name: name, Known: known}
	}
	return ProcMesh{}, &AmbiguousError{What: "mesh", Name: name, Candidates: ids}
}

// taken reports whether the mesh has its label for one (MESH-17).
func (m MeshState) taken() bool {
	d := m.Procs.desc
	return d.World != nil || d.Taken || worlds.Owns(d.ID, m.claim())
}

// tell lets a proc know who has the ranks now, and which have ended before it came, as their hosts saw it: nobody
// waits for their answers.
func (m MeshState) tell(p *actor.Proc) {
	for _, s := range m.States {
		e := actor.Event{
			Kind: actor.KindProc, Status: s.Status.Phase.String(), Mesh: s.ID, Rank: s.Rank, Gen: s.Gen,
			Seat: int(m.Procs.desc.Proc(s.Rank, s.Gen).Seat), Reason: s.Status.Reason,
		}
		if s.Proc != nil {
			e.Host = s.Proc.Host
		}
		if p.Learn(e); s.Status.Phase.Terminal() {
			p.MarkDown(e)
		}
	}
}

// Alive reports whether a rank of the mesh has not ended.
func (m MeshState) Alive() bool {
	return slices.ContainsFunc(m.States, func(s agent.State) bool { return !s.Status.Phase.Terminal() })
}

// assembly puts meshes together from what each host says of its share.
type assembly struct {
	net   *Net
	by    map[string]*assembled
	order []string
}

// assembled is a mesh as far as it is known.
type assembled struct {
	MeshState
	share agent.Share // of a world: the one that is being added
	at    map[int]int // of a world: where in States a rank is
}

// addHost takes all that a host says.
func (a *assembly) addHost(h subjects.HostID, states []agent.State) error {
	for _, s := range states {
		if s.Mesh != nil {
			if err := s.Mesh.Check(); err != nil {
				return fmt.Errorf("host %s describes a mesh that cannot be: %w", h.Label(), err)
			}
		}
		if err := a.add(h, s); err != nil {
			return err
		}
	}
	return nil
}

// add takes what a host says of a rank. It has described the mesh on the first rank of its share.
func (a *assembly) add(h subjects.HostID, s agent.State) error {
	if s.Mesh != nil {
		if err := a.describe(h, *s.Mesh); err != nil {
			return err
		}
	}
	switch m := a.by[s.ID]; {
	case m == nil:
	case m.at != nil:
		m.addRank(h, s)
	default:
		m.States = append(m.States, s)
	}
	return nil
}

func (a *assembly) describe(h subjects.HostID, said agent.Mesh) error {
	m := &assembled{MeshState: MeshState{Procs: ProcMesh{net: a.net, desc: said}}}
	if said.World != nil {
		whole := wholeOf(said)
		if !whole.IsWhole() || said.World.First%said.PerHost != 0 {
			return fmt.Errorf("host %s describes its share of world %s as %+v: want that of a host rank", h.Label(), said.World.World, *said.World)
		}
		m.Procs.desc, m.at = whole, map[int]int{}
	}
	m.Procs.region = m.Procs.desc.Extent.Region()
	id := said.ID.String()
	if known := a.by[id]; known != nil {
		k, n := known.Procs.desc, m.Procs.desc
		if (known.at == nil) != (m.at == nil) || !k.Extent.Equal(n.Extent) || k.PerHost != n.PerHost {
			return fmt.Errorf("host %s describes mesh %s as %s with %d procs per host, others as %s with %d", h.Label(), id, n.Extent, n.PerHost, k.Extent, k.PerHost)
		}
		m = known
	} else {
		a.by[id] = m
		a.order = append(a.order, id)
	}
	if said.World != nil {
		m.share = *said.World
	}
	return nil
}

// worldOwner stands for the system controller in the handles of worlds, whichever acts.
const worldOwner = "system"

// wholeOf is the mesh of a world, as a share tells of it: without hosts so far.
func wholeOf(share agent.Mesh) agent.Mesh {
	m, n, per := share, share.Extent.NumRanks(), max(share.PerHost, 1)
	m.World = &agent.Share{World: share.World.World, Count: n}
	m.Hosts = make([]subjects.HostID, (n+per-1)/per)
	m.Owner = subjects.ProcID{Mesh: m.ID}.Actor(worldOwner)
	return m
}

// addRank takes what a host of a world says of a rank. Of two hosts, the one with the later generation has it.
func (m *assembled) addRank(h subjects.HostID, s agent.State) {
	if s.Rank < m.share.First || s.Rank >= m.share.First+m.share.Count {
		return
	}
	at, known := m.at[s.Rank]
	switch {
	case !known:
		m.at[s.Rank] = len(m.States)
		m.States = append(m.States, s)
	case m.States[at].Gen > s.Gen || m.States[at].Gen == s.Gen && s.Status.Phase.Terminal():
		return
	default:
		m.States[at] = s
	}
	m.Procs.desc.Hosts[s.Rank/m.Procs.desc.PerHost] = h
}

// all are the meshes, in the order in which they were heard of.
func (a *assembly) all() []MeshState {
	out := make([]MeshState, len(a.order))
	for i, id := range a.order {
		out[i] = a.by[id].MeshState
	}
	return out
}
