package logs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cmd/client/internal/inspect"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// ownerGonePollInterval is the poll interval for a mesh without owner: dead hosts send nothing.
const ownerGonePollInterval = 5 * time.Second

// endWatch waits until every rank of a target has ended for good. The owner reports this, because
// it may restart ranks. For a world, or without owner, the hosts report it.
type endWatch struct {
	net    *mesh.Net
	p      target.Resolved
	over   chan struct{} // closed once all have ended and all their output has arrived
	again  chan string   // names restarted ranks; unread values are dropped
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	sub    *bus.Sub

	mu    sync.Mutex   // guards the fields below
	owned bool         // the owner's report counts
	told  incarnations // from the owner
	seen  incarnations // from hosts
	how   map[int]string
}

// incarnations hold the newest known generation of each rank.
type incarnations map[int]incarnation

type incarnation struct {
	gen    int
	status string
}

// hear records the state of a generation. Outdated reports have no effect.
func (g incarnations) hear(rank int, is incarnation) {
	last, known := g[rank]
	if !known || is.gen > last.gen || is.gen == last.gen && !inspect.Ended(last.status) {
		g[rank] = is
	}
}

// ends returns the ends of all ranks, or nil if some have not ended.
func (g incarnations) ends(ranks int) map[int]string {
	how := map[int]string{}
	for rank, is := range g {
		if inspect.Ended(is.status) {
			how[rank] = is.status
		}
	}
	if len(how) < ranks {
		return nil
	}
	return how
}

// watchEnds starts a watch. When over closes, all lines sent before the last end have reached their
// handler.
func watchEnds(ctx context.Context, net *mesh.Net, p target.Resolved) (*endWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := newEndWatch(net, p)
	w.cancel = cancel
	space := net.Proc().Space()
	sub, err := net.Bus().Control().Subscribe(space.Events(actor.KindProc, p.Procs.ID()), func(m bus.Msg) {
		e, err := actor.DecodeEventFrom(space, m)
		if e, in := e.ClampRanks(p.Procs.Extent().NumRanks()); err == nil && in && (e.Terminal() || e.Status == string(actor.Running)) {
			e.Each(func(e actor.Event) {
				w.hear(w.seen, e.Rank, incarnation{e.Gen, e.Status})
				w.saysAgain(e)
			})
		}
	})
	if err != nil {
		cancel()
		return nil, err
	}
	w.sub = sub
	w.tasks.Go(func() { w.follow(ctx) })
	return w, nil
}

func newEndWatch(net *mesh.Net, p target.Resolved) *endWatch {
	return &endWatch{
		net: net, p: p, over: make(chan struct{}), again: make(chan string, 64), owned: true, told: incarnations{}, seen: incarnations{},
	}
}

func (w *endWatch) close() {
	w.cancel()
	w.tasks.Wait()
	_ = w.sub.Unsubscribe() // the connection closes anyway
}

// saysAgain reports that a rank runs again.
func (w *endWatch) saysAgain(e actor.Event) {
	if e.Gen == 0 || e.Terminal() || !w.p.Region.Contains(e.Rank) {
		return
	}
	select {
	case w.again <- fmt.Sprintf("[%s] runs again, as generation %d", inspect.Point(w.p.Base, e.Rank), e.Gen):
	default:
	}
}

// hear records a report about a rank.
func (w *endWatch) hear(in incarnations, rank int, is incarnation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.p.Region.Contains(rank) {
		in.hear(rank, is)
		w.check()
	}
}

// check closes over once all have ended. The caller holds the lock.
func (w *endWatch) check() {
	said := w.seen
	if w.owned {
		said = w.told
	}
	if w.how != nil {
		return
	}
	w.how = said.ends(w.p.Region.NumRanks())
	if w.how != nil {
		w.net.Bus().Data().AfterReceived(func() { close(w.over) })
	}
}

// follow listens to the owner of the mesh. Without owner it polls the hosts.
func (w *endWatch) follow(ctx context.Context) {
	pause := time.NewTicker(ownerGonePollInterval)
	defer pause.Stop()
	procs := w.p.Procs
	gone := map[subjects.ActorID]bool{}
	for absent := map[int]int{}; ctx.Err() == nil; {
		if d := procs.Describe(); d.World == nil && !gone[d.Owner] {
			w.listen(ctx, procs)
			gone[d.Owner] = true
		}
		states, now, err := w.look(ctx)
		if d := now.Describe(); err == nil && d.World == nil && d.Owner.IsValid() && !gone[d.Owner] {
			procs = now // a new owner
			continue
		}
		w.alone()
		if err == nil {
			w.count(states, absent)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// listen receives the owner's events until the owner is gone.
func (w *endWatch) listen(ctx context.Context, procs mesh.ProcMesh) {
	w.mu.Lock()
	w.owned = true
	w.told = incarnations{}
	told := w.told
	w.mu.Unlock()
	for e, err := range procs.Changes(ctx) {
		if err != nil {
			return
		}
		w.hear(told, e.Rank, incarnation{e.Gen, e.Status})
	}
}

// alone switches to the hosts' reports.
func (w *endWatch) alone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owned = false
	w.check()
}

// look asks the hosts for the states of the ranks and for the owner of the mesh.
func (w *endWatch) look(ctx context.Context) (states []agent.State, now mesh.ProcMesh, err error) {
	meshes, err := w.net.Meshes(ctx)
	for _, m := range meshes {
		if m.Procs.ID() == w.p.Procs.ID() {
			return m.States, m.Procs, err
		}
	}
	return nil, now, err
}

// count evaluates one poll. absent counts consecutive polls without a rank: after two, its host has
// ended with it.
func (w *endWatch) count(states []agent.State, absent map[int]int) {
	there := map[int]bool{}
	for _, s := range states {
		there[s.Rank] = true
		w.hear(w.seen, s.Rank, incarnation{s.Gen, s.Status.Phase.String()})
	}
	for _, rank := range w.p.Region.Ranks() {
		absent[rank]++
		if there[rank] {
			absent[rank] = 0
		}
		if absent[rank] >= 2 {
			w.mu.Lock()
			last := w.seen[rank].gen
			w.mu.Unlock()
			w.hear(w.seen, rank, incarnation{last, agent.Failed.String()})
		}
	}
}
