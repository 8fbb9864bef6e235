package worlds

import (
	"fmt"
	"time"
)

// How a lease is kept and taken. Whoever has it stops acting well before another may take it, so that the
// clocks of the two may differ in pace; what acts all the same is refused by the hosts (WORLD-13).
//
// A term that ends without a word is followed after leaseLook + leaseTake and the time that two words take, of the 5 s
// that a failover may take: the rest is for a look that is lost, and for the next term to begin.
const (
	leaseRenew   = 500 * time.Millisecond  // between two renewals
	leaseAbandon = 2 * time.Second         // after the last one that succeeded, it is no longer ours
	leaseTake    = 2750 * time.Millisecond // after it was seen to be renewed, it may be taken
	leaseLook    = 250 * time.Millisecond  // between two looks at somebody else's
)

// grant is who acts, as it is written down. Nobody holds one that was given back.
type grant struct {
	Holder string `json:"holder"`
	Epoch  uint64 `json:"epoch"`
}

// lease decides who of several controllers acts. It is pure: whoever runs it does what act says, and tells
// it what came of that.
type lease struct {
	self  string
	floor uint64 // epochs up to this one are of the past

	known    grant
	revision uint64    // of known; 0: there is none
	changed  time.Time // when that was first seen
	follows  bool      // somebody has renewed it since this one looks: he acted until he was silent
	due      time.Time // when something is to be done next
	blind    time.Time // looking has failed since; zero: it has not

	leading bool
	renewed time.Time // when the write was sent that succeeded last
	doubt   bool      // a write failed, or came to nothing: what is written is to be looked at
}

// What a lease wants done next.
type (
	lookAt  struct{}
	writeTo struct {
		grant
		revision uint64 // that it replaces; 0: none
		within   time.Duration
	}
	rest struct{ until time.Time }
)

// act is what to do now.
func (l *lease) act(now time.Time) any {
	if l.leading && !now.Before(l.renewed.Add(leaseAbandon)) {
		l.leading, l.doubt = false, true
	}
	switch {
	case l.doubt:
		return lookAt{}
	case now.Before(l.due):
		until := l.due
		if over := l.renewed.Add(leaseAbandon); l.leading && over.Before(until) {
			until = over
		}
		return rest{until}
	case l.leading:
		return writeTo{l.known, l.revision, l.renewed.Add(leaseAbandon).Sub(now)}
	case l.free(now):
		epoch := max(l.known.Epoch, l.floor) + 1
		return writeTo{grant{l.self, epoch}, l.revision, leaseAbandon}
	}
	l.due = now.Add(leaseLook)
	if free := l.changed.Add(leaseTake); free.After(now) && free.Before(l.due) {
		l.due = free
	}
	return lookAt{}
}

// free reports whether it may be taken: nobody has it, it is that of an earlier term of ours, or its
// holder has not renewed it.
func (l *lease) free(now time.Time) bool {
	return !l.changed.IsZero() && (l.known.Holder == "" || l.known.Holder == l.self || !now.Before(l.changed.Add(leaseTake)))
}

// saw takes what is written: revision 0 is nothing. When the lease is gone with its bucket, its holder has it until it
// runs out, and writes it again.
func (l *lease) saw(now time.Time, g grant, revision uint64) {
	if revision == 0 && l.known.Epoch > 0 {
		g = l.known
		l.revision = 0
	}
	mine := l.leading && g.Holder == l.self && g.Epoch == l.known.Epoch
	if l.leading && !mine {
		l.leading = false
	}
	if revision != l.revision || l.changed.IsZero() {
		l.follows = l.follows || l.revision > 0
		l.known, l.revision, l.changed = g, revision, now
	}
	l.doubt, l.blind = false, time.Time{}
	if l.leading || l.free(now) {
		l.due = now
	}
}

// unseen says that looking failed, and reports whether it has for so long that whoever has the lease is not there either.
func (l *lease) unseen(now time.Time) bool {
	l.doubt, l.due = false, now.Add(leaseLook)
	if l.blind.IsZero() {
		l.blind = now
	}
	return !now.Before(l.blind.Add(leaseTake))
}

// wrote takes what came of a write that was sent at some time.
func (l *lease) wrote(sent, now time.Time, w writeTo, revision uint64, ok bool) {
	if !ok {
		l.doubt = true
		return
	}
	l.follows = l.follows || l.leading
	l.known, l.revision, l.changed = w.grant, revision, now
	l.leading, l.renewed, l.due = w.Holder == l.self, sent, sent.Add(leaseRenew)
}

// outranked says that hosts have heard of a later epoch: the term is over, and the next is later still.
func (l *lease) outranked(epoch uint64) {
	l.floor, l.leading, l.due = max(l.floor, epoch), false, time.Time{}
}

// lost says why a lease is not ours any more.
func (l *lease) lost() error {
	if l.known.Holder != l.self && l.known.Holder != "" {
		return fmt.Errorf("%s has the lease, in epoch %d", l.known.Holder, l.known.Epoch)
	}
	return fmt.Errorf("the lease could not be renewed for %s", leaseAbandon)
}

// back is the write that gives the lease back; false: it is not ours.
func (l *lease) back() (writeTo, bool) {
	return writeTo{grant{"", l.known.Epoch}, l.revision, leaseRenew}, l.leading
}
