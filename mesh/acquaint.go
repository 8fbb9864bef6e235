package mesh

import (
	"context"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// Who follows a mesh hears of each rank that is started again. Who has a handle from somebody else, or was started
// after others had been, has missed those before: so a process asks who has the ranks before it uses a mesh for the
// first time, once it follows it. What is sent goes to the right proc then, in order, and nothing is sent twice.

const (
	// askWithin is how long the owner of a mesh, or its hosts, have to say who has the ranks.
	askWithin = 2 * time.Second
	// askAgain is when those are asked once more who did not say.
	askAgain = 5 * time.Second
	// maxOwners is how many owners that follow one another are asked.
	maxOwners = 4
	// maxAcquaintances bounds the meshes that a process remembers to have asked for; then it begins anew.
	maxAcquaintances = 1 << 12
)

// acquaintances are the meshes of which a process knows who has the ranks.
type acquaintances struct {
	mu  sync.RWMutex // guards all
	all map[subjects.MeshID]*acquaintance
}

// acquaintance is the question about one mesh, and what came of it.
type acquaintance struct {
	done  chan struct{} // closed once the fields below are set
	known bool
	at    time.Time
}

// acquaintancesKey is where a proc keeps them.
type acquaintancesKey struct{}

func acquaintancesOf(p *actor.Proc) *acquaintances {
	return p.ValueOr(acquaintancesKey{}, func() any {
		as := &acquaintances{all: map[subjects.MeshID]*acquaintance{}}
		p.Bus().Watch(as.stir) // for as long as there is a bus
		return as
	}).(*acquaintances)
}

// stir forgets everything when the process was cut off: what happened meanwhile, it may have missed.
func (as *acquaintances) stir(s bus.State) {
	if s.Kind == bus.Reconnected {
		as.mu.Lock()
		defer as.mu.Unlock()
		clear(as.all)
	}
}

// asked is the question about a mesh that was asked already; false: it is the caller's to ask.
func (as *acquaintances) asked(id subjects.MeshID) (*acquaintance, bool) {
	as.mu.RLock()
	a := as.all[id]
	as.mu.RUnlock()
	if a != nil && !a.over() {
		return a, true
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	if now := as.all[id]; now != nil && now != a {
		return now, true
	}
	if len(as.all) >= maxAcquaintances {
		clear(as.all)
	}
	a = &acquaintance{done: make(chan struct{})}
	as.all[id] = a
	return a, false
}

// over reports whether nobody could say, and some time has passed since.
func (a *acquaintance) over() bool {
	select {
	case <-a.done:
		return !a.known && time.Since(a.at) > askAgain
	default:
		return false
	}
}

// answered sets what came of a question.
func (a *acquaintance) answered(known bool) {
	a.known, a.at = known, time.Now()
	close(a.done)
}

// acquainted notes that this process has just been told who has the ranks: it follows the mesh from now on.
func (p ProcMesh) acquainted() {
	if a, asked := p.net.known.asked(p.desc.ID); !asked {
		a.answered(p.net.proc.Follow(p.desc.ID, p.desc.Extent.NumRanks()) == nil)
	}
}

// acquaint makes sure that this process knows who has the ranks of the mesh now, if somebody says so (MESH-11).
func (p ProcMesh) acquaint() {
	if p.Err() != nil {
		return
	}
	a, asked := p.net.known.asked(p.desc.ID)
	if asked {
		<-a.done // bounded, for who asks is
		return
	}
	known := false
	defer func() { a.answered(known) }()
	if p.net.proc.Follow(p.desc.ID, p.desc.Extent.NumRanks()) != nil { // from now on it is told; what was before is asked
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*askWithin)
	defer cancel()
	known = p.askOwner(ctx) || p.askHosts(ctx)
}

// askOwner asks who owns the mesh, and those who have followed that one.
func (p ProcMesh) askOwner(ctx context.Context) bool {
	if p.desc.World != nil { // the system controller is not found by its name
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	owner := p.desc.Owner
	for range maxOwners {
		states, err := agent.Get.Call(ctx, actor.RefOf[agent.Agent](owner).Via(p.net.proc), agent.Query{ID: p.desc.ID.String()})
		by := agent.Fenced(err)
		if by == nil {
			return err == nil && p.learn(states)
		}
		owner = by.Has.Owner
	}
	return false
}

// askHosts asks the hosts that the handle knows.
func (p ProcMesh) askHosts(ctx context.Context) bool {
	hosts := HostMesh{net: p.net, name: defaultHosts}
	for _, h := range p.desc.Hosts {
		if h.IsValid() {
			hosts.hosts = append(hosts.hosts, h)
		}
	}
	said, _ := eachHost(ctx, hosts, func(ctx context.Context, a actor.Ref[agent.Agent]) ([]agent.State, error) {
		return agent.Get.Call(ctx, a, agent.Query{ID: p.desc.ID.String()})
	})
	known := false
	for _, states := range said {
		known = p.learn(states) || known
	}
	return known
}

// learn tells the process who has the ranks that are not in their first generation. One that is about to begin has
// its rank once it runs, which the process will hear.
func (p ProcMesh) learn(states []agent.State) bool {
	m := p.desc
	for _, s := range states {
		if s.Mesh != nil && s.Mesh.World == nil && s.Mesh.Check() == nil && s.Mesh.PerHost == m.PerHost && s.Mesh.Extent.Equal(m.Extent) {
			m = *s.Mesh // with the hosts that it has now; a share of a world has its own alone
		}
		if s.Status.Phase == agent.Initializing {
			s.Gen--
		}
		if s.Gen < 1 || s.Rank < 0 || s.Rank >= m.Extent.NumRanks() {
			continue
		}
		e := actor.Event{
			Kind: actor.KindProc, Status: string(actor.Running), Mesh: m.ID.String(), Rank: s.Rank, Gen: s.Gen,
			Seat: int(m.Proc(s.Rank, s.Gen).Seat), PerProcess: m.PerProcess, Host: m.Hosts[s.Rank/m.PerHost].String(), At: time.Now(),
		}
		if s.Proc != nil {
			e.Host = s.Proc.Host
		}
		p.net.proc.Learn(e)
	}
	return len(states) > 0
}
