package actor

import (
	"sync"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// Rate limits of each plain NATS client of a proc: messages a second, and a burst.
const (
	foreignRate  = 20_000
	foreignBurst = 10_000
)

// maxRateLimiters bounds the foreign senders with a limiter of their own; a full table is cleared.
const maxRateLimiters = 4096

// rateLimiters limits the messages of foreign senders (DEL-10). Between castnet processes credit
// does that.
type rateLimiters struct {
	now func() int64 // the proc's clock

	mu  sync.Mutex // guards all
	all map[subjects.Sender]*rateLimiter
}

// rateLimiter is a token bucket.
type rateLimiter struct {
	tokens     float64
	refilledAt int64
}

// allow takes one message of a sender; false: it has sent too many.
func (ms *rateLimiters) allow(from subjects.Sender) bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	now, m := ms.now(), ms.all[from]
	if m == nil {
		if ms.all == nil || len(ms.all) >= maxRateLimiters {
			ms.all = map[subjects.Sender]*rateLimiter{}
		}
		m = &rateLimiter{foreignBurst, now}
		ms.all[from] = m
	}
	m.tokens = min(foreignBurst, m.tokens+foreignRate*time.Duration(now-m.refilledAt).Seconds())
	m.refilledAt = now
	if m.tokens < 1 {
		return false
	}
	m.tokens--
	return true
}
