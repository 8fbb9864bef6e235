package link

import (
	"sync/atomic"
	"time"
)

// coalescer delays messages until others known to come at once, so that they leave together: the
// answers to one packet, and the requests of callers woken by one packet. Without expected senders
// there is no delay.
type coalescer struct {
	expectedSenders atomic.Int32 // expected senders, as far as known
	coalescingSince atomic.Int64 // arrival of the first delayed message; 0: none; set under the lock
	lateTimer       *time.Timer  // fires if expected senders do not come
}

// maxCoalesceDelay bounds the delay of a message for others.
const maxCoalesceDelay = 200 * time.Microsecond

// BeginBatch announces an imminent send; other messages wait for it, for a moment. EndBatch ends
// it. Between the two the caller must wait for nothing but the processor.
func (l *Links) BeginBatch() { l.expectedSenders.Add(1) }

// EndBatch ends a BeginBatch. Messages sent before the caller's next wait still leave with the
// rest, because the flusher runs later.
func (l *Links) EndBatch() {
	if l.expectedSenders.Add(-1) == 0 && l.coalescingSince.Load() != 0 {
		l.wakeFlusher()
	}
}

// FlushBatch ends a series of SendBatched calls.
func (l *Links) FlushBatch() {
	if l.coalescingSince.Load() != 0 {
		l.flush()
	}
}

// coalesce records that queued messages are delayed; false if they have waited long enough. The
// lock is held.
func (l *Links) coalesce(now Instant) bool {
	since := l.coalescingSince.Load()
	if since == 0 {
		l.coalescingSince.Store(now)
		l.lateTimer.Reset(maxCoalesceDelay)
		return true
	}
	return now-since < Instant(maxCoalesceDelay)
}

// readyToPublish reports whether there are messages without a delay. The lock is held.
func (l *Links) readyToPublish() bool {
	if !l.core.HasPending() {
		return false
	}
	since := l.coalescingSince.Load()
	return since == 0 || l.now()-since >= Instant(maxCoalesceDelay)
}
