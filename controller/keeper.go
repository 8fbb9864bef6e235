package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// Keeper renews the leases of many meshes whose controllers are in one proc: their renewals come at the same moments,
// and those at one host go in one message (CTL-14).
type Keeper struct {
	p    *actor.Proc
	born time.Time

	mu    sync.Mutex
	wants map[subjects.HostID][]want // in this round
	over  bool

	first  chan struct{} // somebody wants something, in a round of nobody
	cancel context.CancelFunc
	work   context.Context
	tasks  sync.WaitGroup
}

// want is one lease to be renewed, and where what became of it is waited for.
type want struct {
	agent.Lease
	answer chan renewal
}

type renewal struct {
	statuses agent.Overlay
	err      error
}

// gather is how long a round waits for others to join it.
const gather = 50 * time.Millisecond

var errKeeperClosed = errors.New("nothing renews leases any more: their owner ends")

// NewKeeper starts a Keeper. Close ends it.
func NewKeeper(p *actor.Proc) *Keeper {
	k := &Keeper{p: p, born: time.Now(), wants: map[subjects.HostID][]want{}, first: make(chan struct{}, 1)}
	k.work, k.cancel = context.WithCancel(context.Background())
	k.tasks.Go(k.rounds)
	return k
}

// Close ends it, and what it waits for. Whoever wants something afterwards is refused.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.over = true
	k.mu.Unlock()
	k.cancel()
	k.tasks.Wait()
}

// next is the moment at which all who renew so often do so the next time.
func (k *Keeper) next(every time.Duration) time.Time {
	return k.born.Add((time.Since(k.born)/every + 1) * every)
}

// keep renews a lease, together with others.
func (k *Keeper) keep(ctx context.Context, host subjects.HostID, l agent.Lease) (agent.Overlay, error) {
	w := want{l, make(chan renewal, 1)}
	k.mu.Lock()
	if k.over {
		k.mu.Unlock()
		return nil, errKeeperClosed
	}
	if len(k.wants) == 0 {
		k.first <- struct{}{} // its reader has taken the last one before it emptied wants
	}
	k.wants[host] = append(k.wants[host], w)
	k.mu.Unlock()
	select {
	case r := <-w.answer:
		return r.statuses, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-k.work.Done():
		return nil, errKeeperClosed
	}
}

// rounds begins one whenever somebody wants something, until the Keeper is closed.
func (k *Keeper) rounds() {
	for {
		select {
		case <-k.first:
		case <-k.work.Done():
			return
		}
		select {
		case <-time.After(gather):
		case <-k.work.Done():
			return
		}
		k.mu.Lock()
		wants := k.wants
		k.wants = map[subjects.HostID][]want{}
		k.mu.Unlock()
		for host, all := range wants {
			k.tasks.Go(func() { k.renew(host, all) })
		}
	}
}

// renew renews leases at one host, and answers each. A host that is silent holds up nobody else.
func (k *Keeper) renew(host subjects.HostID, all []want) {
	leases := make([]agent.Lease, len(all))
	within := actor.DefaultDeadline
	for i, w := range all {
		if leases[i] = w.Lease; w.For > 0 {
			within = min(within, w.For/renewals)
		}
	}
	ctx, cancel := context.WithTimeout(k.work, within)
	defer cancel()
	said, err := agent.RenewAll(ctx, hostAgent(k.p, host), leases)
	for i, w := range all {
		if i < len(said) {
			w.answer <- renewal{said[i].Statuses, said[i].Err()}
		} else {
			w.answer <- renewal{err: err}
		}
	}
}
