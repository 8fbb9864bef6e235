package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// Orphaned is why a resource was stopped whose lease, of such a term, ran out (AGT-7).
func Orphaned(term time.Duration) string {
	return fmt.Sprintf("orphaned: its owner was silent for %s", term)
}

// heldUp is how late a look at leases is at an agent that did not run for a while: it was stopped, or starved. What
// its owners said meanwhile waits to be read then, so that leases go on for half their term.
const heldUp = 100 * time.Millisecond

// Leases see to it that a resource whose lease runs out is stopped (AGT-7). They belong to their agent's
// turn.
type Leases struct {
	Table *Table
	Stop  func(ctx *actor.Context, id, reason string)

	next time.Time // when leases are looked at; zero: never
}

// Keep renews the lease of a resource; 0 changes nothing.
func (l *Leases) Keep(ctx *actor.Context, id string, lease time.Duration) {
	if lease <= 0 {
		return
	}
	until := time.Now().Add(lease)
	l.Table.Keep(id, until, lease)
	if l.next.IsZero() || until.Before(l.next) {
		l.arrange(ctx)
	}
}

// arrange has the leases looked at when the next one ends, unless they are soon enough.
func (l *Leases) arrange(ctx *actor.Context) {
	next, ok := l.Table.Expiry()
	if !ok || !l.next.IsZero() && !next.Before(l.next) {
		return
	}
	l.next = next
	ctx.After(max(0, time.Until(next)), func(ctx *actor.Context) {
		if !l.next.Equal(next) {
			return // an earlier look was arranged later
		}
		l.next = time.Time{}
		now := time.Now()
		for _, id := range l.Table.Expired(now) {
			if now.Sub(next) > heldUp && l.Table.PutOff(id, now) {
				continue
			}
			log := ctx.Log()
			why := Orphaned(l.Table.Term(id))
			log.Warn().Str("id", id).Str("owner", l.Table.owner(id)).Msg("the lease ran out: stopping it, " + why)
			l.Table.Keep(id, time.Time{}, 0)
			l.Stop(ctx, id, why)
		}
		l.arrange(ctx)
	})
}

// Keep sets when a resource expires, and of which term its lease is; the zero time means never.
func (t *Table) Keep(id string, until time.Time, term time.Duration) {
	if r, ok := t.resources[id]; ok {
		r.expires, r.term, r.putOff = until, term, false
	}
}

// PutOff lets a lease that has run out go on for half its term, once; false: it did already.
func (t *Table) PutOff(id string, now time.Time) bool {
	r, ok := t.resources[id]
	if !ok || r.term == 0 || r.putOff {
		return false
	}
	r.expires, r.putOff = now.Add(r.term/2), true
	return true
}

// Term is that of the lease of a resource.
func (t *Table) Term(id string) time.Duration {
	if r, ok := t.resources[id]; ok {
		return r.term
	}
	return 0
}

// Expires is when the lease of a resource ends; zero: never.
func (t *Table) Expires(id string) time.Time {
	if r, ok := t.resources[id]; ok {
		return r.expires
	}
	return time.Time{}
}

// Expired lists the resources whose time has passed and that still have a rank alive.
func (t *Table) Expired(now time.Time) []string {
	var ids []string
	for id, r := range t.resources {
		if !r.expires.IsZero() && !now.Before(r.expires) && !r.over() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Expiry is when the next lease of a resource with live ranks ends; false: none does.
func (t *Table) Expiry() (next time.Time, ok bool) {
	for _, r := range t.resources {
		if !r.expires.IsZero() && !r.over() && (!ok || r.expires.Before(next)) {
			next, ok = r.expires, true
		}
	}
	return next, ok
}
