package worlds

import (
	"fmt"
	"time"
)

// Timing of the lease. The holder stops acting well before another controller may take it, so that
// their clocks may differ in pace. Hosts refuse later orders of the old holder (WORLD-13).
//
// A crashed holder is followed after leaseLook + leaseTake and two messages, within the 5 s of a
// failover. The rest is for a lost look and for the start of the next term.
const (
	leaseRenew   = 500 * time.Millisecond  // between two renewals
	leaseAbandon = 2 * time.Second         // after the last one that succeeded, it is no longer ours
	leaseTake    = 2750 * time.Millisecond // after it was seen to be renewed, it may be taken
	leasePoll    = 250 * time.Millisecond  // between two looks at somebody else's
)

// leaseRecord is the saved record of the acting controller. A released lease has no holder.
type leaseRecord struct {
	Holder string `json:"holder"`
	Epoch  uint64 `json:"epoch"`
}

// lease decides which controller acts. It is pure: its runner carries out the actions of next and
// reports their results.
type lease struct {
	self  string
	floor uint64 // epochs up to this one are of the past

	known        leaseRecord
	revision     uint64    // of known; 0: there is none
	changed      time.Time // when that was first seen
	sawRenewal   bool      // somebody has renewed it since this one looks: he acted until he was silent
	nextAt       time.Time // when something is to be done next
	failingSince time.Time // looking has failed since; zero: it has not

	leading   bool
	renewed   time.Time // when the write was sent that succeeded last
	uncertain bool      // a write failed, or came to nothing: what is written is to be looked at
}

// Actions of a lease.
type (
	readLease  struct{}
	writeLease struct {
		leaseRecord
		revision uint64 // that it replaces; 0: none
		timeout  time.Duration
	}
	waitUntil struct{ until time.Time }
)

// next is the action to take now.
func (l *lease) next(now time.Time) any {
	if l.leading && !now.Before(l.renewed.Add(leaseAbandon)) {
		l.leading, l.uncertain = false, true
	}
	switch {
	case l.uncertain:
		return readLease{}
	case now.Before(l.nextAt):
		until := l.nextAt
		if over := l.renewed.Add(leaseAbandon); l.leading && over.Before(until) {
			until = over
		}
		return waitUntil{until}
	case l.leading:
		return writeLease{l.known, l.revision, l.renewed.Add(leaseAbandon).Sub(now)}
	case l.isFree(now):
		epoch := max(l.known.Epoch, l.floor) + 1
		return writeLease{leaseRecord{l.self, epoch}, l.revision, leaseAbandon}
	}
	l.nextAt = now.Add(leasePoll)
	if free := l.changed.Add(leaseTake); free.After(now) && free.Before(l.nextAt) {
		l.nextAt = free
	}
	return readLease{}
}

// isFree reports whether the lease may be taken: it has no holder, the holder is an earlier term of
// this controller, or the holder has not renewed it.
func (l *lease) isFree(now time.Time) bool {
	return !l.changed.IsZero() && (l.known.Holder == "" || l.known.Holder == l.self || !now.Before(l.changed.Add(leaseTake)))
}

// observed applies the saved record; revision 0 means no record. If the lease is lost with its
// bucket, its holder keeps it until it expires, and writes it again.
func (l *lease) observed(now time.Time, g leaseRecord, revision uint64) {
	if revision == 0 && l.known.Epoch > 0 {
		g = l.known
		l.revision = 0
	}
	mine := l.leading && g.Holder == l.self && g.Epoch == l.known.Epoch
	if l.leading && !mine {
		l.leading = false
	}
	if revision != l.revision || l.changed.IsZero() {
		l.sawRenewal = l.sawRenewal || l.revision > 0
		l.known, l.revision, l.changed = g, revision, now
	}
	l.uncertain, l.failingSince = false, time.Time{}
	if l.leading || l.isFree(now) {
		l.nextAt = now
	}
}

// readFailed records a failed read, and reports whether reads have failed long enough that the
// holder has lost the lease too.
func (l *lease) readFailed(now time.Time) bool {
	l.uncertain, l.nextAt = false, now.Add(leasePoll)
	if l.failingSince.IsZero() {
		l.failingSince = now
	}
	return !now.Before(l.failingSince.Add(leaseTake))
}

// writeDone applies the result of a write.
func (l *lease) writeDone(sent, now time.Time, w writeLease, revision uint64, ok bool) {
	if !ok {
		l.uncertain = true
		return
	}
	l.sawRenewal = l.sawRenewal || l.leading
	l.known, l.revision, l.changed = w.leaseRecord, revision, now
	l.leading, l.renewed, l.nextAt = w.Holder == l.self, sent, sent.Add(leaseRenew)
}

// outranked records that hosts know a later epoch: the term is over, and the next one is later
// still.
func (l *lease) outranked(epoch uint64) {
	l.floor, l.leading, l.nextAt = max(l.floor, epoch), false, time.Time{}
}

// lossError is the reason for the loss of a lease.
func (l *lease) lossError() error {
	if l.known.Holder != l.self && l.known.Holder != "" {
		return fmt.Errorf("%s has the lease, in epoch %d", l.known.Holder, l.known.Epoch)
	}
	return fmt.Errorf("the lease could not be renewed for %s", leaseAbandon)
}

// releaseWrite is the write that releases the lease; false: this controller does not hold it.
func (l *lease) releaseWrite() (writeLease, bool) {
	return writeLease{leaseRecord{"", l.known.Epoch}, l.revision, leaseRenew}, l.leading
}
