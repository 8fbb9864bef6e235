package actor

import (
	"sync"
	"time"
)

// What each plain NATS client may send to a proc: so many messages a second, and so many at a time.
const (
	foreignRate  = 20_000
	foreignBurst = 10_000
)

// maxMeters bounds how many foreign senders are told apart; then all begin anew.
const maxMeters = 4096

// meters measure what foreign senders send (DEL-10). Between castnet processes credit does that.
type meters struct {
	now func() int64 // the proc's clock

	mu  sync.Mutex // guards all
	all map[string]*meter
}

// meter is a bucket that fills at a rate and loses one with each message.
type meter struct {
	left float64
	at   int64
}

// admit takes one message of a sender; false: it has sent too many.
func (ms *meters) admit(from string) bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	now, m := ms.now(), ms.all[from]
	if m == nil {
		if ms.all == nil || len(ms.all) >= maxMeters {
			ms.all = map[string]*meter{}
		}
		m = &meter{foreignBurst, now}
		ms.all[from] = m
	}
	m.left = min(foreignBurst, m.left+foreignRate*time.Duration(now-m.at).Seconds())
	m.at = now
	if m.left < 1 {
		return false
	}
	m.left--
	return true
}
