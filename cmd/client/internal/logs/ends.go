package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

// ownerlessPollInterval is the interval of queries to the hosts of a mesh without owner.
const ownerlessPollInterval = 2 * time.Second

// endWatch waits until every rank of a target has ended for good. The mesh's watch reports this,
// because an owner may restart ranks. Without owner the hosts report it.
type endWatch struct {
	net    *mesh.Net
	p      target.Resolved
	over   chan struct{} // closed once all have ended and all their output has arrived
	again  chan string   // names restarted ranks; unread values are dropped
	cancel context.CancelFunc
	task   sync.WaitGroup
	how    map[int]string // the ends; read after over
}

// watchEnds starts a watch. When over closes, all lines sent before the last end have reached their
// handler.
func watchEnds(ctx context.Context, conn *mesh.Net, p target.Resolved) *endWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &endWatch{net: conn, p: p, over: make(chan struct{}), again: make(chan string, 64), cancel: cancel}
	w.task.Go(func() {
		w.how = w.follow(ctx)
		if w.how != nil {
			conn.Bus().Data().AfterReceived(func() { close(w.over) })
		}
	})
	return w
}

func (w *endWatch) close() {
	w.cancel()
	w.task.Wait()
}

// follow returns the ends of all ranks, or nil if ctx ended before.
func (w *endWatch) follow(ctx context.Context) map[int]string {
	for procs := w.p.Procs; ctx.Err() == nil; {
		owned := newEnds(w.p.Region)
		for e, err := range procs.Changes(ctx) {
			if err != nil {
				break // the owner is gone
			}
			owned.hear(e.Rank, incarnation{e.Gen, e.Status})
			w.noteRestart(e)
			if how := owned.all(); how != nil {
				return how
			}
		}
		next, how := w.askHosts(ctx, procs.Describe())
		if how != nil {
			return how
		}
		procs = next
	}
	return nil
}

// askHosts asks the hosts of a mesh without owner until every rank has ended, or until the mesh has
// a new owner.
func (w *endWatch) askHosts(ctx context.Context, old agent.Mesh) (next mesh.ProcMesh, how map[int]string) {
	seen := newEnds(w.p.Region)
	pause := time.NewTicker(ownerlessPollInterval)
	defer pause.Stop()
	for ctx.Err() == nil {
		inv, err := w.net.Inventory(ctx)
		var states []agent.State
		for _, m := range inv.Meshes {
			if m.Procs.ID() != w.p.Procs.ID() {
				continue
			}
			if d := m.Procs.Describe(); d.World == nil && d.Owner.IsValid() && d.Owner != old.Owner {
				return m.Procs, nil
			}
			states = m.States
		}
		if err == nil && isComplete(inv) {
			seen.count(slices.DeleteFunc(states, func(s agent.State) bool { return s.Proc == nil }))
		}
		if how := seen.all(); how != nil {
			return next, how
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	return next, nil
}

// isComplete reports whether all hosts have answered but dead ones. A silent host may run ranks.
func isComplete(inv mesh.Inventory) bool {
	missing, is := errors.AsType[*mesh.MissingHostsError](inv.Err())
	return !is || !missing.TimedOut && !missing.NoHostList && !missing.MayBeAlive()
}

// noteRestart reports that a rank runs again.
func (w *endWatch) noteRestart(e actor.Event) {
	if e.Gen == 0 || e.Status != string(actor.Running) || !w.p.Region.Contains(e.Rank) {
		return
	}
	select {
	case w.again <- fmt.Sprintf("[%s] runs again, as generation %d", inspect.Point(w.p.Base, e.Rank), e.Gen):
	default:
	}
}

// ends holds the newest known generation of each rank of a region.
type ends struct {
	region shape.Region
	newest map[int]incarnation
	absent map[int]int // consecutive lists of the hosts without the rank
}

type incarnation struct {
	gen    int
	status string
}

func newEnds(region shape.Region) *ends {
	return &ends{region: region, newest: map[int]incarnation{}, absent: map[int]int{}}
}

// hear records the state of a generation. Outdated reports have no effect.
func (s *ends) hear(rank int, is incarnation) {
	last, known := s.newest[rank]
	newer := !known || is.gen > last.gen || is.gen == last.gen && !inspect.Ended(last.status)
	if newer && s.region.Contains(rank) {
		s.newest[rank] = is
	}
}

// count records one list of the hosts. A rank that two consecutive lists lack has ended with its
// host.
func (s *ends) count(states []agent.State) {
	there := map[int]bool{}
	for _, st := range states {
		there[st.Rank] = true
		s.hear(st.Rank, incarnation{st.Gen, st.Status.Phase.String()})
	}
	for _, rank := range s.region.Ranks() {
		s.absent[rank]++
		if there[rank] {
			s.absent[rank] = 0
		}
		if s.absent[rank] >= 2 {
			s.hear(rank, incarnation{s.newest[rank].gen, agent.Failed.String()})
		}
	}
}

// ended returns the ends so far, and all returns them once every rank has ended, else nil.
func (s *ends) ended() map[int]string {
	how := map[int]string{}
	for rank, is := range s.newest {
		if inspect.Ended(is.status) {
			how[rank] = is.status
		}
	}
	return how
}

func (s *ends) all() map[int]string {
	if how := s.ended(); len(how) == s.region.NumRanks() {
		return how
	}
	return nil
}
