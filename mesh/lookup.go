package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// MeshState is a proc mesh and the states of its ranks from its hosts.
type MeshState struct {
	Procs  ProcMesh
	States []agent.State
}

// Lookup resolves a proc mesh, of a program or a world, by its ID or its label. Of several live
// meshes with a label it prefers the one that has taken it: a world, a detached mesh, or one
// spawned with TakeName. If none or several have, the error lists them.
//
// Casts to a world without some of its hosts reach its present ranks; the others are missing.
//
// A silent host may have the mesh. While such a host may be alive, Lookup asks again, for 5 s at
// most. Then the error holds a *MissingHostsError beside the *NotFoundError.
func (n *Net) Lookup(ctx context.Context, name string) (ProcMesh, error) {
	_, p, err := n.InventoryFor(ctx, name)
	return p, err
}

// InventoryFor is Lookup with the Inventory that answered it.
func (n *Net) InventoryFor(ctx context.Context, name string) (Inventory, ProcMesh, error) {
	var p ProcMesh
	var unresolved error
	inv, err := n.InventoryUntil(ctx, func(i Inventory) bool {
		p, unresolved = i.Lookup(name)
		missing, partial := errors.AsType[*MissingHostsError](unresolved)
		return !partial || !missing.MayBeAlive()
	})
	if err != nil {
		return inv, ProcMesh{}, err
	}
	return inv, p, unresolved
}

// silentHostWait is how long a query asks again because a silent host matters to it.
const silentHostWait = 5 * time.Second

// InventoryUntil is Inventory, repeated until one is enough, for 5 s at most.
func (n *Net) InventoryUntil(ctx context.Context, isEnough func(Inventory) bool) (Inventory, error) {
	wait, cancel := context.WithTimeout(ctx, silentHostWait)
	defer cancel()
	for {
		inv, err := n.Inventory(ctx)
		if err != nil || isEnough(inv) || wait.Err() != nil {
			return inv, err
		}
		select {
		case <-time.After(n.quiet):
		case <-wait.Done():
		}
	}
}

// Lookup is Net.Lookup in the Inventory. If a host is missing from it, the *NotFoundError comes
// with a *MissingHostsError: the mesh may exist there.
func (i Inventory) Lookup(name string) (ProcMesh, error) {
	var found []MeshState
	var known, ids []string
	for _, m := range i.Meshes {
		if !m.Alive() {
			continue
		}
		id := m.Procs.ID().String()
		known = append(known, id)
		if m.isNamed(name) {
			found, ids = append(found, m), append(ids, id)
		}
	}
	if taken := slices.DeleteFunc(slices.Clone(found),
		func(m MeshState) bool { return !m.hasTakenName() }); len(taken) == 1 {
		found = taken
	}
	switch len(found) {
	case 1:
		p := found[0].Procs
		found[0].noteStates(p.net.proc)
		p.net.placements.markResolved(p.desc)
		return p, nil
	case 0:
		err := error(&NotFoundError{What: "mesh", Name: name, Known: known, Ended: i.lastEnd(name)})
		if missing := i.Err(); missing != nil {
			err = fmt.Errorf("%w; %w", err, missing)
		}
		return ProcMesh{}, err
	}
	return ProcMesh{}, &AmbiguousError{What: "mesh", Name: name, Candidates: ids}
}

// lastEnd describes how the ended mesh of a name that started last ended; "": no such mesh.
func (i Inventory) lastEnd(name string) string {
	var newest MeshState
	for _, m := range i.Meshes {
		if len(m.States) == 0 || m.Alive() || !m.isNamed(name) {
			continue
		}
		if newest.States == nil || m.Started().After(newest.Started()) {
			newest = m
		}
	}
	if newest.States == nil {
		return ""
	}
	end := newest.States[0].Status
	for _, s := range newest.States {
		if end.Phase != agent.Failed && s.Status.Phase == agent.Failed {
			end = s.Status
		}
	}
	return fmt.Sprintf("%s %s", newest.Procs.ID(), end)
}

// isNamed reports whether the name is the mesh's ID or label.
func (m MeshState) isNamed(name string) bool {
	id := m.Procs.ID()
	return id.String() == name || id.Label() == name
}

// hasTakenName reports whether the mesh has its label for one (MESH-15).
func (m MeshState) hasTakenName() bool {
	d := m.Procs.desc
	return d.World != nil || d.NameTaken || system.IsSystemClaim(d.ID, m.claim())
}

// noteStates tells a proc the present holders of ranks and the earlier ends, as their hosts saw
// them. No call then waits for an ended rank.
func (m MeshState) noteStates(p *actor.Proc) {
	for _, s := range m.States {
		e := actor.Event{
			Kind: actor.KindProc, Status: s.Status.Phase.String(), Mesh: s.ID, Rank: s.Rank, Gen: s.Gen,
			ProcIndex: int(m.Procs.desc.ProcID(s.Rank, s.Gen).Index), Reason: s.Status.Reason,
		}
		if s.Proc != nil {
			e.Host = s.Proc.Host
		}
		p.Members().NoteGeneration(e)
		if s.Status.Phase.Terminal() {
			p.Members().MarkDown(e)
		}
	}
}

// Alive reports whether a rank of the mesh has not ended.
func (m MeshState) Alive() bool {
	return slices.ContainsFunc(m.States, func(s agent.State) bool { return !s.Status.Phase.Terminal() })
}

// Started is when the first rank of the mesh started; zero: unknown.
func (m MeshState) Started() (first time.Time) {
	for _, s := range m.States {
		if p := s.Proc; p != nil && !p.Started.IsZero() && (first.IsZero() || p.Started.Before(first)) {
			first = p.Started
		}
	}
	return first
}

// meshAssembly puts meshes together from the hosts' shares.
type meshAssembly struct {
	net   *Net
	byID  map[string]*assembledMesh
	order []string
}

// assembledMesh is a mesh as far as it is known.
type assembledMesh struct {
	MeshState
	claim      agent.Claim      // of the description in Procs
	share      agent.WorldShare // of a world: the one that is being added
	stateIndex map[int]int      // where in States a rank is
}

// addHost adds all states of a host.
func (a *meshAssembly) addHost(h subjects.HostID, states []agent.State) error {
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

// add adds a host's state of a rank. The first rank of a host's share describes the mesh.
func (a *meshAssembly) add(h subjects.HostID, s agent.State) error {
	if s.Mesh != nil {
		if err := a.describe(h, s); err != nil {
			return err
		}
	}
	if m := a.byID[s.ID]; m != nil {
		m.addRank(h, s)
	}
	return nil
}

func (a *meshAssembly) describe(h subjects.HostID, s agent.State) error {
	said := *s.Mesh
	claim := agent.Claim{}
	if s.Claim != nil {
		claim = *s.Claim
	}
	m := &assembledMesh{
		MeshState: MeshState{Procs: ProcMesh{net: a.net, desc: said}}, claim: claim, stateIndex: map[int]int{},
	}
	if said.World != nil {
		whole := wholeWorld(said)
		if !whole.IsWhole() || said.World.First%said.PerHost != 0 {
			return fmt.Errorf("host %s describes its share of world %s as %+v: want that of a host rank", h.Label(),
				said.World.World, *said.World)
		}
		m.Procs.desc = whole
	}
	m.Procs.region = m.Procs.desc.Extent.Region()
	id := said.ID.String()
	if known := a.byID[id]; known != nil {
		k, n := known.Procs.desc, m.Procs.desc
		sameShape := k.Revision != n.Revision || k.Extent.Equal(n.Extent)
		if (k.World == nil) != (n.World == nil) || !sameShape || k.PerHost != n.PerHost {
			return fmt.Errorf("host %s describes mesh %s as %s with %d procs per host, others as %s with %d",
				h.Label(), id, n.Extent, n.PerHost, k.Extent, k.PerHost)
		}
		if k.World == nil && cmp.Or(claim.Compare(known.claim), cmp.Compare(n.Revision, k.Revision)) > 0 {
			known.Procs = m.Procs
			known.claim = claim
		}
		m = known
	} else {
		a.byID[id] = m
		a.order = append(a.order, id)
	}
	if said.World != nil {
		m.share = *said.World
	}
	return nil
}

// worldOwner stands for the system controller in the handles of worlds, whichever acts.
const worldOwner = "system"

// wholeWorld is the mesh of a world, as a share describes it: still without hosts.
func wholeWorld(share agent.Mesh) agent.Mesh {
	m, n := share, share.Extent.NumRanks()
	per := max(share.PerHost, 1)
	m.World = &agent.WorldShare{World: share.World.World, Count: n}
	m.Hosts = make([]subjects.HostID, (n+per-1)/per)
	m.Owner = subjects.ProcID{Mesh: m.ID}.Actor(worldOwner)
	return m
}

// addRank adds a host's state of a rank. Of two hosts, the later generation wins.
func (m *assembledMesh) addRank(h subjects.HostID, s agent.State) {
	isWorld := m.Procs.desc.World != nil
	if isWorld && (s.Rank < m.share.First || s.Rank >= m.share.First+m.share.Count) {
		return
	}
	at, known := m.stateIndex[s.Rank]
	switch {
	case !known:
		m.stateIndex[s.Rank] = len(m.States)
		m.States = append(m.States, s)
	case m.States[at].Gen > s.Gen || m.States[at].Gen == s.Gen && s.Status.Phase.Terminal():
		return
	default:
		m.States[at] = s
	}
	if isWorld {
		m.Procs.desc.Hosts[s.Rank/m.Procs.desc.PerHost] = h
	}
}

// all are the meshes, in the order of discovery.
func (a *meshAssembly) all() []MeshState {
	out := make([]MeshState, len(a.order))
	for i, id := range a.order {
		m := a.byID[id].MeshState
		removed := func(s agent.State) bool { return s.Rank >= m.Procs.desc.Extent.NumRanks() }
		m.States = slices.DeleteFunc(m.States, removed)
		out[i] = m
	}
	return out
}
