package link

import (
	"fmt"
	"sync"

	"github.com/castnet-io/castnet/subjects"
)

// Verdict is what to do with a message.
type Verdict int

const (
	Deliver   Verdict = iota // next in order
	Duplicate                // was here before: drop it
	Broken                   // something before it is missing: refuse it
)

// incoming is the state of one link at its receiver.
type incoming struct {
	last    uint64
	reason  string // "" while whole
	refused uint64 // messages since it broke
}

// step decides about one message (LINK-3). It is the whole protocol of this package.
func (in incoming) step(n, prev uint64) (incoming, Verdict) {
	switch {
	case in.reason != "":
		return in, Broken
	case n != 0 && n <= in.last:
		return in, Duplicate
	case prev >= n: // n = 0 among them
		in.reason = fmt.Sprintf("message %d claims to follow %d", n, prev)
		return in, Broken
	case prev != in.last:
		in.reason = fmt.Sprintf("message %d follows %d, but %d was the last to arrive", n, prev, in.last)
		return in, Broken
	}
	in.last = n
	return in, Deliver
}

// Stats counts what a receiver saw.
type Stats struct {
	Delivered, Duplicates, Refused uint64
}

// Receiver checks what arrives from every peer.
type Receiver struct {
	mu    sync.Mutex
	links *recent[incoming]
	stats Stats
}

// NewReceiver returns a receiver that has heard from nobody.
func NewReceiver() *Receiver { return &Receiver{links: newRecent[incoming](maxPeers)} }

// Accept decides about message n of a peer, which follows prev. The reason is set when the
// verdict is Broken; tell asks to let the peer know, which goes over the bus and may be lost, too:
// with the first message that is refused, the second, the fourth, and so on, ever more rarely.
func (r *Receiver) Accept(from subjects.ProcessID, n, prev uint64) (v Verdict, reason string, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := r.links.use(from)
	before := *state
	after, v := before.step(n, prev)
	if v == Broken {
		after.refused++
		tell = after.refused&(after.refused-1) == 0
	}
	*state = after
	switch v {
	case Deliver:
		r.stats.Delivered++
	case Duplicate:
		r.stats.Duplicates++
	case Broken:
		r.stats.Refused++
	}
	return v, after.reason, tell
}

// Forget drops the state of a peer that is known to be dead: whoever says so refuses its messages
// before they come here.
func (r *Receiver) Forget(from subjects.ProcessID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links.drop(from)
}

// Stats returns the counts so far.
func (r *Receiver) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}
