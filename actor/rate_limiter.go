package actor

import (
	"maps"
	"sync"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// Rate limits of each plain NATS client of a proc: messages a second, and a burst.
const (
	foreignRate  = 20_000
	foreignBurst = 10_000
)

const (
	// maxRateLimiters bounds the foreign senders with a limiter of their own.
	maxRateLimiters = 4096
	// rateLimiterIdle is the silence after which a sender loses its limiter in a full table.
	rateLimiterIdle = 10 * time.Second
	// sweepInterval is the least time between two searches for them.
	sweepInterval = time.Second
)

// rateLimiters limits the messages of foreign senders (DEL-10). Between castnet processes credit
// does that. The first message of a sender also counts against one limit for all new senders, so a
// sender that changes its name is held, too, and does not slow those that are known.
type rateLimiters struct {
	now func() int64 // the proc's clock

	mu     sync.Mutex // guards the fields below
	all    map[subjects.Sender]*rateLimiter
	others *rateLimiter // of senders without one in all; nil: not used yet
	swept  int64        // time of the last search for idle ones
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
	now := ms.now()
	if m := ms.all[from]; m != nil {
		return m.take(now)
	}
	if ms.others == nil {
		ms.all = map[subjects.Sender]*rateLimiter{}
		ms.others = &rateLimiter{foreignBurst, now}
	}
	if !ms.others.take(now) {
		return false
	}
	if len(ms.all) >= maxRateLimiters {
		ms.sweep(now)
	}
	if len(ms.all) < maxRateLimiters {
		ms.all[from] = &rateLimiter{foreignBurst - 1, now}
	}
	return true
}

// sweep forgets idle senders.
func (ms *rateLimiters) sweep(now int64) {
	if time.Duration(now-ms.swept) < sweepInterval {
		return
	}
	ms.swept = now
	maps.DeleteFunc(ms.all, func(_ subjects.Sender, m *rateLimiter) bool {
		return time.Duration(now-m.refilledAt) >= rateLimiterIdle
	})
}

// take takes one token; false: there is none.
func (m *rateLimiter) take(now int64) bool {
	m.tokens = min(foreignBurst, m.tokens+foreignRate*time.Duration(now-m.refilledAt).Seconds())
	m.refilledAt = now
	if m.tokens < 1 {
		return false
	}
	m.tokens--
	return true
}
