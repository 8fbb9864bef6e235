package actortest

import (
	"errors"
	"sync"

	"github.com/castnet-io/castnet/subjects"
)

// errEnded is the answer of those that the test did not give.
var errEnded = errors.New("actortest: the test ended without an answer to a message that it held (Received.Answer)")

// held are the answers that recorders hold back.
type held struct {
	mu   sync.Mutex
	all  map[*pending]struct{}
	over bool // the test has ended
}

// pending is an answer that somebody waits for.
type pending struct {
	from   subjects.ActorID // who
	giveUp func()
}

// add keeps an answer. When the test has ended it is given up at once.
func (h *held) add(p *pending) {
	h.mu.Lock()
	over := h.over
	if h.all == nil {
		h.all = map[*pending]struct{}{}
	}
	h.all[p] = struct{}{}
	h.mu.Unlock()
	if over {
		p.giveUp()
	}
}

// take reports whether the answer has not been given yet. From then on its sender is at work.
func (h *held) take(p *pending) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, there := h.all[p]
	delete(h.all, p)
	return there
}

// by reports whether an actor waits for an answer.
func (h *held) by(from subjects.ActorID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.all {
		if p.from == from {
			return true
		}
	}
	return false
}

// end gives up all answers.
func (h *held) end() {
	h.mu.Lock()
	h.over = true
	all := make([]*pending, 0, len(h.all))
	for p := range h.all {
		all = append(all, p)
	}
	h.mu.Unlock()
	for _, p := range all {
		p.giveUp()
	}
}
