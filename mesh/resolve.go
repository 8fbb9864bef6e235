package mesh

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/subjects"
)

// A process that follows a mesh sees each restart of a rank. A process that got its handle later
// has missed earlier restarts. So it asks for the holders of the ranks before its first use of a
// mesh. Its messages then go to the right proc, in order, and once.

const (
	// resolveTimeout bounds the query of a mesh's owner, or its hosts, for the holders of ranks.
	resolveTimeout = 2 * time.Second
	// resolveRetry is the time until a failed query is repeated.
	resolveRetry = 5 * time.Second
	// maxOwners bounds the successive owners to query.
	maxOwners = 4
	// maxPlacements bounds the meshes in a process's cache; beyond it the cache is cleared.
	maxPlacements = 1 << 12
)

// placementCache holds the meshes whose holders of ranks a process knows.
type placementCache struct {
	proc    *actor.Proc
	follows func(subjects.MeshID) bool
	mu      sync.RWMutex // guards the fields below
	all     map[subjects.MeshID]*placementEntry
	// the actor types of a mesh's procs, as far as hosts have reported them
	types map[subjects.MeshID][]string
	// newest has the latest known revision of the meshes that grew or shrank.
	newest map[subjects.MeshID]agent.Mesh
}

// placementEntry is the query about one mesh, and its result.
type placementEntry struct {
	done       chan struct{} // closed once the fields below are set
	known      bool
	resolvedAt time.Time
	revision   int // the latest revision that an event had reported before
}

// placementCacheKey is the key of a proc's placementCache.
type placementCacheKey struct{}

func placementCacheOf(p *actor.Proc) *placementCache {
	return p.Values().GetOr(placementCacheKey{}, func() any {
		as := &placementCache{proc: p, follows: p.Members().Follows, all: map[subjects.MeshID]*placementEntry{},
			types: map[subjects.MeshID][]string{}, newest: map[subjects.MeshID]agent.Mesh{}}
		p.Bus().Watch(as.invalidate)
		return as
	}).(*placementCache)
}

// invalidate clears the cache after a disconnection: the process may have missed events.
func (as *placementCache) invalidate(s bus.State) {
	if s.Kind == bus.Reconnected {
		as.mu.Lock()
		defer as.mu.Unlock()
		clear(as.all)
	}
}

// typesOf returns the known actor types of a mesh's procs; none: unknown.
func (as *placementCache) typesOf(id subjects.MeshID) []string {
	as.mu.RLock()
	defer as.mu.RUnlock()
	return as.types[id]
}

// noteTypes records the actor types of a mesh's procs.
func (as *placementCache) noteTypes(id subjects.MeshID, types []string) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if len(as.types) >= maxPlacements {
		clear(as.types)
	}
	as.types[id] = types
}

// entry returns the query of a mesh since the report of a revision. false: it is new, and the
// caller must complete it.
func (as *placementCache) entry(id subjects.MeshID, revision int) (*placementEntry, bool) {
	as.mu.RLock()
	a := as.all[id]
	as.mu.RUnlock()
	if a != nil && a.revision == revision && !as.isExpired(id, a) {
		return a, true
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	if now := as.all[id]; now != nil && now != a {
		return now, true
	}
	if len(as.all) >= maxPlacements {
		clear(as.all)
	}
	a = &placementEntry{done: make(chan struct{}), revision: revision}
	as.all[id] = a
	return a, false
}

// isExpired reports whether the query is to be repeated: it failed, or the process has stopped to
// follow the mesh.
func (as *placementCache) isExpired(id subjects.MeshID, a *placementEntry) bool {
	select {
	case <-a.done:
		if a.known {
			return !as.follows(id)
		}
		return time.Since(a.resolvedAt) > resolveRetry
	default:
		return false
	}
}

// complete sets the result of a query.
func (a *placementEntry) complete(known bool) {
	a.known = known
	a.resolvedAt = time.Now()
	close(a.done)
}

// markResolved records that this process knows the holders of the ranks, and follows the mesh from
// now on.
func (as *placementCache) markResolved(m agent.Mesh) {
	as.learn(m)
	m.NoteIn(as.proc.Members())
	if a, asked := as.entry(m.ID, as.proc.Members().Revision(m.ID)); !asked {
		a.complete(as.proc.Members().FollowMesh(m.ID, m.Extent.NumRanks()) == nil)
	}
}

// learn records a revision of a mesh, unless a later one is known.
func (as *placementCache) learn(m agent.Mesh) {
	if m.Revision == 0 {
		return
	}
	as.proc.Members().NoteRanks(m.ID, m.Extent.NumRanks())
	m.NoteIn(as.proc.Members())
	as.mu.Lock()
	defer as.mu.Unlock()
	if len(as.newest) >= maxPlacements {
		clear(as.newest)
	}
	if m.Revision > as.newest[m.ID].Revision {
		as.newest[m.ID] = m
	}
}

// latest returns the latest known revision of a mesh. It asks first if the process has heard of a
// change since the last query, or if that failed.
func (as *placementCache) latest(m agent.Mesh) agent.Mesh {
	as.mu.RLock()
	a := as.all[m.ID]
	as.mu.RUnlock()
	if a != nil && (a.revision != as.proc.Members().Revision(m.ID) || as.isExpired(m.ID, a)) {
		as.resolve(m)
	}
	return as.newestOf(m)
}

// newestOf returns the latest known revision of a mesh, without a query.
func (as *placementCache) newestOf(m agent.Mesh) agent.Mesh {
	as.mu.RLock()
	defer as.mu.RUnlock()
	if newest := as.newest[m.ID]; newest.Revision > m.Revision {
		return newest
	}
	return m
}

// resolve queries the present holders of the mesh's ranks, if they are unknown (MESH-11).
func (as *placementCache) resolve(m agent.Mesh) {
	a, asked := as.entry(m.ID, as.proc.Members().Revision(m.ID))
	if asked {
		<-a.done // within the timeouts of the first caller
		return
	}
	known := false
	defer func() { a.complete(known) }()
	m.NoteIn(as.proc.Members())
	// Later restarts arrive as events; the query is about earlier ones.
	if as.proc.Members().FollowMesh(m.ID, m.Extent.NumRanks()) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*resolveTimeout)
	defer cancel()
	known = as.askOwner(ctx, m) || as.askHosts(ctx, m)
	// A host may answer before the owner has told it of the revision.
	known = known && as.newestOf(m).Revision >= a.revision
}

// askOwner queries the owner of the mesh, and its successors.
func (as *placementCache) askOwner(ctx context.Context, m agent.Mesh) bool {
	if m.World != nil { // the owner is the host; the system controller does not answer here
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	var states []agent.State
	err := as.eachOwner(m, func(owner actor.Ref[agent.Agent]) (err error) {
		states, err = agent.Get.Call(ctx, owner, agent.GetRequest{ID: m.ID.String()})
		return err
	})
	return err == nil && as.applyStates(m, states)
}

// eachOwner asks the owner of a mesh, then its successors as long as a reply names the next one.
func (as *placementCache) eachOwner(m agent.Mesh, ask func(actor.Ref[agent.Agent]) error) (err error) {
	owner := m.Owner
	for range maxOwners {
		err = ask(actor.RefOf[agent.Agent](owner).Via(as.proc))
		by := agent.AsFenced(err)
		if by == nil {
			break
		}
		owner = by.Current.Owner
		as.proc.Members().NoteOwner(m.ID, owner.Proc.Process())
	}
	return err
}

// askHosts queries the hosts in the handle.
func (as *placementCache) askHosts(ctx context.Context, m agent.Mesh) bool {
	hosts := slices.DeleteFunc(slices.Clone(m.Hosts), func(h subjects.HostID) bool { return !h.IsValid() })
	said := make([][]agent.State, len(hosts))
	fanout.Each(maxConcurrentAsks, hosts, func(i int, h subjects.HostID) {
		said[i], _ = agent.Get.Call(ctx, agent.Of(h.Proc()).Via(as.proc), agent.GetRequest{ID: m.ID.String()})
	})
	known := false
	for _, states := range said {
		known = as.applyStates(m, states) || known
	}
	return known
}

// applyStates records the holders of ranks past their first generation in the process. A starting
// proc gets its rank once it runs; that event reaches the process.
func (as *placementCache) applyStates(m agent.Mesh, states []agent.State) bool {
	for _, s := range states {
		// A share of a world names only its own host.
		described := s.Mesh != nil && s.Mesh.World == nil && s.Mesh.Check() == nil && s.Mesh.ID == m.ID
		if described && s.Mesh.PerHost == m.PerHost &&
			(s.Mesh.Revision > m.Revision || s.Mesh.Extent.Equal(m.Extent)) {
			m = *s.Mesh // with the present hosts
			as.learn(m)
		}
		if s.Status.Phase == agent.Initializing {
			s.Gen--
		}
		if s.Gen < 1 || s.Rank < 0 || s.Rank >= m.Extent.NumRanks() {
			continue
		}
		e := actor.Event{
			Kind: actor.KindProc, Status: string(actor.Running), Mesh: m.ID.String(), Rank: s.Rank, Gen: s.Gen,
			ProcIndex: int(m.ProcID(s.Rank, s.Gen).Index), PerProcess: m.PerProcess,
			Host: m.Hosts[s.Rank/m.PerHost].String(), At: time.Now(),
		}
		if s.Proc != nil {
			e.Host = s.Proc.Host
		}
		as.proc.Members().NoteGeneration(e)
	}
	return len(states) > 0
}
