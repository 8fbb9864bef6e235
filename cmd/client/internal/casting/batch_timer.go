package casting

import (
	"time"
)

// batchTimer measures reply times in a throttled cast: all replies of a batch arrive before the
// next one is sent.
type batchTimer struct {
	batches [][]int
	pause   time.Duration
	pending int // ranks of the first batch without a reply
	sentAt  time.Time
}

func newBatchTimer(k resolved) *batchTimer {
	p := &batchTimer{batches: k.batches, pause: k.throttle.BatchDelay, sentAt: time.Now()}
	p.pending = len(p.batches[0])
	return p
}

// onAnswer returns the time of a reply in milliseconds.
func (p *batchTimer) onAnswer() float64 {
	ms := millisSince(p.sentAt)
	p.pending--
	if p.pending == 0 && len(p.batches) > 1 {
		p.batches = p.batches[1:]
		p.pending = len(p.batches[0])
		p.sentAt = time.Now().Add(p.pause)
	}
	return ms
}
