package link

import (
	"fmt"
	"sync"

	"github.com/castnet-io/castnet/subjects"
)

// BrokenError says that the receiver refuses a link.
type BrokenError struct {
	Peer   subjects.ProcessID
	Reason string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("link to %s is broken: %s", e.Peer, e.Reason)
}

// peer is what a sender knows about one link.
type peer struct {
	last   uint64       // the last number sent on it
	open   bool         // the peer was heard from, so it is there
	broken *BrokenError // why nothing is sent any more
}

// Sender numbers what one process sends. Two locks: one keeps the order of publishing, and is held
// while the bus takes a message, which may last; the other guards what is known, and is held for no
// longer than that takes, so that a pump may have it.
type Sender struct {
	order sync.Mutex // LINK-1

	mu    sync.Mutex // guards the fields below
	n     uint64
	peers *recent[peer]
}

// NewSender returns a sender whose first number is 1.
func NewSender() *Sender { return &Sender{peers: newRecent[peer](maxPeers)} }

// Send numbers one message to a process and publishes it. open tells publish that the peer was
// heard from before; while it is not, a hint whether anybody listens is worth its price.
func (s *Sender) Send(to subjects.ProcessID, publish func(n, prev uint64, open bool) error) error {
	s.order.Lock()
	defer s.order.Unlock()
	n, known := s.next(to)
	if known.broken != nil {
		return known.broken // LINK-4
	}
	if err := publish(n, known.last, known.open); err != nil {
		return err // LINK-2
	}
	s.sent(n, to)
	return nil
}

// next is the number of the next message, and what is known of its receiver.
func (s *Sender) next(to subjects.ProcessID) (uint64, peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n + 1, *s.peers.use(to)
}

// sent records that message n has left for some processes.
func (s *Sender) sent(n uint64, to ...subjects.ProcessID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n = n
	for _, id := range to {
		s.peers.use(id).last = n
	}
}

// SendCast numbers one message to many processes and publishes it once. prevs are in the order of
// to, each of which is there once. A process whose link is broken is left out: its prev is Left, and
// its error is returned. When every link is broken nothing is published (LINK-4).
func (s *Sender) SendCast(to []subjects.ProcessID, publish func(n uint64, prevs []uint64) error) ([]*BrokenError, error) {
	s.order.Lock()
	defer s.order.Unlock()
	n, prevs, meant, broken := s.nextCast(to)
	if len(meant) == 0 {
		return broken, nil
	}
	if err := publish(n, prevs); err != nil {
		return broken, err
	}
	s.sent(n, meant...)
	return broken, nil
}

// nextCast is next for many: their prevs, whose links are whole, and why others are not.
func (s *Sender) nextCast(to []subjects.ProcessID) (n uint64, prevs []uint64, meant []subjects.ProcessID, broken []*BrokenError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prevs = make([]uint64, len(to))
	meant = make([]subjects.ProcessID, 0, len(to))
	for i, id := range to {
		switch p := s.peers.get(id); {
		case p != nil && p.broken != nil:
			prevs[i] = Left
			broken = append(broken, p.broken)
			continue
		case p != nil:
			prevs[i] = p.last
		}
		meant = append(meant, id) // one that nothing was sent to before opens its link with this cast
	}
	return s.n + 1, prevs, meant, broken
}

// Left marks a member of a cast that is not meant: its link is broken.
const Left = ^uint64(0)

// Heard records that a peer answered. It never waits for a publish.
func (s *Sender) Heard(from subjects.ProcessID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.peers.get(from); p != nil {
		p.open = true
	}
}

// Break ends the link to a process and reports whether it was whole before. It never waits for a
// publish; one that is under way is the last.
func (s *Sender) Break(to subjects.ProcessID, reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers.use(to)
	if p.broken != nil {
		return false
	}
	p.broken = &BrokenError{Peer: to, Reason: reason}
	return true
}

// Forget drops the state of a peer that is known to be dead.
func (s *Sender) Forget(to subjects.ProcessID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers.drop(to)
}
