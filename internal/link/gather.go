package link

import (
	"sync/atomic"
	"time"
)

// gathering lets messages wait for others that are known to come at once, so that they leave together: the
// answers to what came in one packet, the questions of those whom one packet has woken. A link on which
// nobody is expected to send adds no wait.
type gathering struct {
	expected atomic.Int32 // who is about to send, as far as is known
	since    atomic.Int64 // when the first that waits was queued; 0: none does; set under the lock
	late     *time.Timer  // when those that were expected have not come
}

// gatherFor is the longest that a message waits for others.
const gatherFor = 200 * time.Microsecond

// Expect says that somebody is about to send: what others send waits for that, for a moment. Come ends it.
// Between the two nothing must be waited for but the processor.
func (l *Links) Expect() { l.expected.Add(1) }

// Come says that who was expected is here. What he sends before he waits for anything still leaves with the
// rest: the flusher comes after him.
func (l *Links) Come() {
	if l.expected.Add(-1) == 0 && l.since.Load() != 0 {
		l.rouse()
	}
}

// Gathered says that nothing more comes for what Gather was given.
func (l *Links) Gathered() {
	if l.since.Load() != 0 {
		l.flush()
	}
}

// gather notes that what was queued waits for others; false: it has waited long enough. The lock is held.
func (l *Links) gather(now Instant) bool {
	since := l.since.Load()
	if since == 0 {
		l.since.Store(now)
		l.late.Reset(gatherFor)
		return true
	}
	return now-since < Instant(gatherFor)
}

// ripe reports whether there is something to publish that waits for nobody. The lock is held.
func (l *Links) ripe() bool {
	if !l.core.Waiting() {
		return false
	}
	since := l.since.Load()
	return since == 0 || l.now()-since >= Instant(gatherFor)
}
