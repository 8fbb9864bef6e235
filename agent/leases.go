package agent

import (
	"time"

	"github.com/castnet-io/castnet/actor"
)

// Orphaned is why a resource was stopped whose lease ran out (AGT-7).
const Orphaned = "orphaned: its owner kept no lease"

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
	now := time.Now()
	l.Table.Grant(id, now, lease)
	if until := now.Add(lease); l.next.IsZero() || until.Before(l.next) {
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
			log.Warn().Str("id", id).Msg("the lease ran out: its owner is gone; stopping it")
			l.Table.Keep(id, time.Time{})
			l.Stop(ctx, id, Orphaned)
		}
		l.arrange(ctx)
	})
}
