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

// LeaseRenewer renews the leases of all meshes with controllers in one proc. It renews them in
// rounds, with one message per host (CTL-2).
type LeaseRenewer struct {
	p         *actor.Proc
	startedAt time.Time

	mu      sync.Mutex
	pending map[subjects.HostID][]renewRequest // in this round
	closed  bool

	wake   chan struct{} // the first request of a round has arrived
	cancel context.CancelFunc
	ctx    context.Context
	tasks  sync.WaitGroup
}

// renewRequest is one lease to renew, and the channel for its result.
type renewRequest struct {
	agent.Lease
	answer chan renewResult
}

type renewResult struct {
	statuses agent.Overlay
	err      error
}

// batchDelay is the time for which a round waits for more requests.
const batchDelay = 50 * time.Millisecond

var errRenewerClosed = errors.New("cannot renew the lease: the owner is closing")

// NewLeaseRenewer starts a LeaseRenewer. Close ends it.
func NewLeaseRenewer(p *actor.Proc) *LeaseRenewer {
	k := &LeaseRenewer{
		p: p, startedAt: time.Now(), pending: map[subjects.HostID][]renewRequest{}, wake: make(chan struct{}, 1),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.tasks.Go(k.run)
	return k
}

// Close ends the renewer and its waits. It refuses later requests.
func (k *LeaseRenewer) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.cancel()
	k.tasks.Wait()
}

// nextRenewal returns the next common moment of all renewals with this period.
func (k *LeaseRenewer) nextRenewal(every time.Duration) time.Time {
	return k.startedAt.Add((time.Since(k.startedAt)/every + 1) * every)
}

// renewLease renews a lease, together with others.
func (k *LeaseRenewer) renewLease(
	ctx context.Context, host subjects.HostID, l agent.Lease,
) (agent.Overlay, error) {
	w := renewRequest{l, make(chan renewResult, 1)}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil, errRenewerClosed
	}
	if len(k.pending) == 0 {
		k.wake <- struct{}{} // never blocks: run receives it before it empties pending
	}
	k.pending[host] = append(k.pending[host], w)
	k.mu.Unlock()
	select {
	case r := <-w.answer:
		return r.statuses, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-k.ctx.Done():
		return nil, errRenewerClosed
	}
}

// run renews the pending leases of each round until the LeaseRenewer is closed.
func (k *LeaseRenewer) run() {
	for {
		select {
		case <-k.wake:
		case <-k.ctx.Done():
			return
		}
		select {
		case <-time.After(batchDelay):
		case <-k.ctx.Done():
			return
		}
		k.mu.Lock()
		wants := k.pending
		k.pending = map[subjects.HostID][]renewRequest{}
		k.mu.Unlock()
		for host, all := range wants {
			k.tasks.Go(func() { k.renewAtHost(host, all) })
		}
	}
}

// renewAtHost renews leases at one host, and replies for each. A silent host delays only its own
// leases.
func (k *LeaseRenewer) renewAtHost(host subjects.HostID, all []renewRequest) {
	leases := make([]agent.Lease, len(all))
	within := actor.DefaultDeadline
	for i, w := range all {
		leases[i] = w.Lease
		if w.TTL > 0 {
			within = min(within, w.TTL/renewals)
		}
	}
	ctx, cancel := context.WithTimeout(k.ctx, within)
	defer cancel()
	said, err := repeated(func() ([]agent.RenewResult, error) {
		return agent.RenewAll(ctx, hostAgent(k.p, host), leases)
	})
	for i, w := range all {
		if i < len(said) {
			w.answer <- renewResult{said[i].Statuses, said[i].Err()}
		} else {
			w.answer <- renewResult{err: err}
		}
	}
}
