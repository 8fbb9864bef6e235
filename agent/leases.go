package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// OrphanedReason returns the stop reason of a resource with an expired lease of TTL term (AGT-7).
func OrphanedReason(term time.Duration) string {
	return fmt.Sprintf("orphaned: its owner was silent for %s", term)
}

// pauseThreshold is the delay of a lease check that shows a stopped or starved agent. Renewals may
// then wait unread in its inbox, so leases last half their TTL more.
const pauseThreshold = 100 * time.Millisecond

// Leases stop resources whose lease expires (AGT-7). They belong to the turn of their agent.
type Leases struct {
	Table *Table
	Stop  func(ctx *actor.Context, id, reason string)

	nextCheck time.Time // time of the next check; zero: none
}

// Renew renews the lease of a resource. 0 changes nothing.
func (l *Leases) Renew(ctx *actor.Context, id string, lease time.Duration) {
	if lease <= 0 {
		return
	}
	until := time.Now().Add(lease)
	l.Table.SetLease(id, until, lease)
	if l.nextCheck.IsZero() || until.Before(l.nextCheck) {
		l.schedule(ctx)
	}
}

// schedule arranges a check at the next expiry, unless an earlier one is scheduled.
func (l *Leases) schedule(ctx *actor.Context) {
	next, ok := l.Table.NextExpiry()
	if !ok || !l.nextCheck.IsZero() && !next.Before(l.nextCheck) {
		return
	}
	l.nextCheck = next
	ctx.After(max(0, time.Until(next)), func(ctx *actor.Context) {
		if !l.nextCheck.Equal(next) {
			return // an earlier check was scheduled meanwhile
		}
		l.nextCheck = time.Time{}
		now := time.Now()
		for _, id := range l.Table.ExpiredLeases(now) {
			if now.Sub(next) > pauseThreshold && l.Table.ExtendLease(id, now) {
				continue
			}
			CountersOf(ctx.Proc()).countExpiredLease()
			log := ctx.Log()
			why := OrphanedReason(l.Table.LeaseTTL(id))
			log.Warn().Str("id", id).Str("owner", l.Table.owner(id)).Msg("lease expired: stopping the mesh: " + why)
			l.Table.SetLease(id, time.Time{}, 0)
			l.Stop(ctx, id, why)
		}
		l.schedule(ctx)
	})
}

// SetLease sets the expiry and the TTL of a resource's lease. The zero time means never.
func (t *Table) SetLease(id string, until time.Time, term time.Duration) {
	if r, ok := t.resources[id]; ok {
		r.expires = until
		r.leaseTTL = term
		r.leaseExtended = false
	}
}

// ExtendLease extends an expired lease by half its TTL. It returns false for a second extension.
func (t *Table) ExtendLease(id string, now time.Time) bool {
	r, ok := t.resources[id]
	if !ok || r.leaseTTL == 0 || r.leaseExtended {
		return false
	}
	r.expires, r.leaseExtended = now.Add(r.leaseTTL/2), true
	return true
}

// LeaseTTL returns the lease TTL of a resource.
func (t *Table) LeaseTTL(id string) time.Duration {
	if r, ok := t.resources[id]; ok {
		return r.leaseTTL
	}
	return 0
}

// LeaseExpiry returns the lease expiry of a resource, or zero for none.
func (t *Table) LeaseExpiry(id string) time.Time {
	if r, ok := t.resources[id]; ok {
		return r.expires
	}
	return time.Time{}
}

// ExpiredLeases lists resources with an expired lease and a live rank.
func (t *Table) ExpiredLeases(now time.Time) []string {
	var ids []string
	for id, r := range t.resources {
		if !r.expires.IsZero() && !now.Before(r.expires) && !r.hasEnded() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// NextExpiry returns the next lease expiry among resources with live ranks, or false.
func (t *Table) NextExpiry() (next time.Time, ok bool) {
	for _, r := range t.resources {
		if !r.expires.IsZero() && !r.hasEnded() && (!ok || r.expires.Before(next)) {
			next, ok = r.expires, true
		}
	}
	return next, ok
}
