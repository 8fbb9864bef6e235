package system

import (
	"fmt"
	"time"
)

// Timing of the lease. The holder stops acting well before another controller may take it, so that
// their clocks may differ in pace. Hosts refuse later orders of the old holder (WORLD-13).
//
// Another controller takes the lease of a crashed holder after leasePoll + leaseTake and two
// messages, within the 5 s of a failover. The rest is for a lost read and the start of the next
// term.
const (
	leaseRenew   = 500 * time.Millisecond  // between two renewals
	leaseAbandon = 2 * time.Second         // after its last renewal the holder stops acting
	leaseTake    = 2750 * time.Millisecond // after the last seen renewal another controller may take it
	leasePoll    = 250 * time.Millisecond  // between two reads of another controller's lease
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
	floor uint64 // an epoch known to hosts; the next one is later

	known        leaseRecord
	revision     uint64    // of known; 0: no record
	changed      time.Time // when this revision was first seen
	sawRenewal   bool      // another controller has renewed it meanwhile, and so acted until now
	nextAt       time.Time // of the next action
	failingSince time.Time // reads have failed since; zero: the last one succeeded

	leading   bool
	renewed   time.Time // when the last successful write was sent
	uncertain bool      // a write failed: the record must be read
}

// Actions of a lease.
type (
	readLease  struct{}
	writeLease struct {
		leaseRecord
		revision uint64 // of the record to replace; 0: none
		timeout  time.Duration
	}
	waitUntil struct{ until time.Time }
)

// next is the action to take now.
func (l *lease) next(now time.Time) any {
	if l.leading && !now.Before(l.renewed.Add(leaseAbandon)) {
		l.leading = false
		l.uncertain = true
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
	if l.changed.IsZero() { // it was never read
		return false
	}
	return l.known.Holder == "" || l.known.Holder == l.self || !now.Before(l.changed.Add(leaseTake))
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
		l.known = g
		l.revision = revision
		l.changed = now
	}
	l.uncertain = false
	l.failingSince = time.Time{}
	if l.leading || l.isFree(now) {
		l.nextAt = now
	}
}

// readFailed records a failed read, and reports whether reads have failed long enough that the
// holder has lost the lease too.
func (l *lease) readFailed(now time.Time) bool {
	l.uncertain = false
	l.nextAt = now.Add(leasePoll)
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
	l.known = w.leaseRecord
	l.revision = revision
	l.changed = now
	l.leading = w.Holder == l.self
	l.renewed = sent
	l.nextAt = sent.Add(leaseRenew)
}

// outranked records that hosts know a later epoch. It ends the term; the next one has an even later
// epoch.
func (l *lease) outranked(epoch uint64) {
	l.floor = max(l.floor, epoch)
	l.leading = false
	l.nextAt = time.Time{}
}

// lossError is the reason for the loss of a lease.
func (l *lease) lossError() error {
	if l.known.Holder != l.self && l.known.Holder != "" {
		return fmt.Errorf("%s has the lease, in epoch %d", l.known.Holder, l.known.Epoch)
	}
	return fmt.Errorf("the lease was not renewed for %s", leaseAbandon)
}

// releaseWrite returns the write that releases the lease; false: this controller does not hold it.
func (l *lease) releaseWrite() (writeLease, bool) {
	return writeLease{leaseRecord{"", l.known.Epoch}, l.revision, leaseRenew}, l.leading
}
