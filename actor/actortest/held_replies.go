package actortest

import (
	"errors"
	"sync"

	"github.com/castnet-io/castnet/subjects"
)

// errTestEnded is the answer to requests still held at the end of the test.
var errTestEnded = errors.New("actortest: the test ended and a held message has no answer (Received.Answer)")

// heldReplies holds the answers held back by recorders.
type heldReplies struct {
	mu    sync.Mutex
	all   map[*heldReply]struct{}
	ended bool // the test has ended
}

// heldReply is an answer with a waiting caller.
type heldReply struct {
	from   subjects.ActorID // the caller
	cancel func()
}

// add holds an answer. After the end of the test it fails it at once.
func (h *heldReplies) add(p *heldReply) {
	h.mu.Lock()
	over := h.ended
	if h.all == nil {
		h.all = map[*heldReply]struct{}{}
	}
	h.all[p] = struct{}{}
	h.mu.Unlock()
	if over {
		p.cancel()
	}
}

// claim reports whether the answer has not been given yet. From then on its sender is at work.
func (h *heldReplies) claim(p *heldReply) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, there := h.all[p]
	delete(h.all, p)
	return there
}

// isWaiting reports whether an actor waits for an answer.
func (h *heldReplies) isWaiting(from subjects.ActorID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.all {
		if p.from == from {
			return true
		}
	}
	return false
}

// cancelAll gives up all answers.
func (h *heldReplies) cancelAll() {
	h.mu.Lock()
	h.ended = true
	all := make([]*heldReply, 0, len(h.all))
	for p := range h.all {
		all = append(all, p)
	}
	h.mu.Unlock()
	for _, p := range all {
		p.cancel()
	}
}
